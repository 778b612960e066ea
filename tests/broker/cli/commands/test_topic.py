"""``rmqpull-broker topic``."""

from __future__ import annotations

import pytest

from rmqpull_broker.cli.commands.topic import format_perm
from tests.harness.cli import RunCommand, RunJson, error_of, table_of


def test_a_topic_is_shown_as_rmqpull_shows_it(run: RunCommand, run_json: RunJson) -> None:
    run("send", "single", "--body", "a")
    (queue,) = run_json("topic", "single")["queues"]
    assert (queue["brokerName"], queue["queueId"], queue["minOffset"], queue["maxOffset"]) == ("broker-a", 0, 0, 1)
    assert "topic none does not exist" in error_of(run("topic", "none"))
    assert [row["topic"] for row in run_json("topics")] == ["orders", "single"]


def test_a_topic_is_created_once(run: RunCommand, run_json: RunJson) -> None:
    created = run_json("topic", "create", "new", "--queues", "3", "--type", "fifo")
    assert (created["created"], created["type"], created["readQueues"]) == (True, "FIFO", 3)
    assert run_json("topic", "create", "new", "--queues", "3", "--type", "FIFO")["created"] is False
    assert "exists with 3 queues of type FIFO" in error_of(run("topic", "create", "new", "--queues", "4"))
    assert run_json("topic", "create", "new", "--queues", "4", "--if-missing")["readQueues"] == 3


def test_an_update_changes_only_the_given_fields_of_a_topic(run: RunCommand) -> None:
    assert table_of(run("topic", "update", "orders", "--write-queues", "5", "--perm", "4"))[1] == [
        "orders",
        "NORMAL",
        "2",
        "5",
        "R--",
    ]
    assert error_of(run("topic", "update", "new")) == "topic[new] not exist, apply first please!"
    assert table_of(run("topic", "update", "new", "--create"))[1] == ["new", "NORMAL", "8", "8", "RW-"]


def test_a_topic_is_described_with_its_groups(run: RunCommand, run_json: RunJson) -> None:
    run("group", "create", "readers")
    run("reset", "readers", "single", "--to", "latest", "--yes")
    assert run_json("topic", "describe", "single") == {
        "topic": "single",
        "type": "NORMAL",
        "readQueues": 1,
        "writeQueues": 1,
        "perm": "RW-",
        "order": False,
        "system": False,
        "groups": ["readers"],
    }
    assert run("topic", "describe", "single").stdout.splitlines()[0].split() == ["TOPIC", "single"]


def test_a_topic_is_deleted_after_a_confirmation(run: RunCommand, run_json: RunJson) -> None:
    assert run("topic", "delete", "orders", stdin="n\n").exit_code == 1
    assert run("topic", "delete", "orders", "--yes").exit_code == 0
    assert run("topic", "delete", "single", stdin="y\n").exit_code == 0
    assert run_json("topics") == []
    assert error_of(run("topic", "delete", "orders", "--yes")) == "topic[orders] not exist, nothing to delete"


@pytest.mark.parametrize(("perm", "text"), [(0, "---"), (1, "--X"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX")])
def test_permissions_are_formatted_as_by_rocketmq(perm: int, text: str) -> None:
    assert format_perm(perm) == text


def test_a_topic_of_another_shape_is_refused_with_what_to_do(run: RunCommand) -> None:
    complaint = error_of(run("topic", "create", "single", "--queues", "3"))
    assert complaint.endswith("; request the same, or change the topic with 'topic update'")
