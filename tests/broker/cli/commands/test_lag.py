"""``rmqpull-broker lag``."""

from __future__ import annotations

import json

import pytest

from tests.harness.cli import RunCommand, RunJson, error_of, table_of


@pytest.fixture(autouse=True)
def readers(run: RunCommand) -> None:
    """A group that is two messages behind on ``orders``, and one that has read ``single`` to its end."""
    run("send", "--topic", "orders", "--body", "a", "--body", "b")
    for group, topic, place in (("slow", "orders", "earliest"), ("fast", "single", "latest")):
        run("group", "create", group)
        run("group", "reset-offset", group, topic, "--to", place)


def test_lag_is_shown_by_group_and_topic(run: RunCommand, run_json: RunJson) -> None:
    assert table_of(run("lag")) == [
        ["GROUP", "TOPIC", "QUEUES", "LAG", "IN FLIGHT"],
        ["fast", "single", "1", "0", "0"],
        ["slow", "orders", "2", "2", "0"],
    ]
    assert run_json("lag", "--group", "slow") == [
        {"group": "slow", "topic": "orders", "queues": 2, "lag": 2, "inFlight": 0}
    ]
    assert run_json("lag", "--group", "slow", "--topic", "single") == []


def test_lag_is_shown_by_queue_on_request(run_json: RunJson) -> None:
    rows = run_json("lag", "--queues", "--topic", "orders")
    assert [(row["brokerName"], row["queueId"], row["consumerOffset"], row["lag"]) for row in rows] == [
        ("broker-a", 0, 0, 1),
        ("broker-a", 1, 0, 1),
    ]


def test_a_watch_repeats_its_output(run: RunCommand, run_json: RunJson) -> None:
    looks = run_json("lag", "--watch", "--interval", "0.001", "--times", "3")
    assert [len(look) for look in looks] == [2, 2, 2]
    assert table_of(run("lag", "--watch", "--interval", "0.001", "--times", "2")) == table_of(run("lag")) * 2


def test_an_interrupt_ends_a_watch(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rmqpull_client.cli.watching.time.sleep", interrupt)
    result = run("lag", "--watch", "--json")
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == 2


def test_a_missing_group_is_refused(run: RunCommand) -> None:
    assert error_of(run("lag", "--group", "none")) == "Group none not exist!"
