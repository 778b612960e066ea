"""``rmqpull lag``: how far groups are behind."""

from __future__ import annotations

import pytest

from rmqpull_broker.testing import RunningBroker
from tests.harness.cli import RunCommand, RunJson, error_of, table_of

pytestmark = pytest.mark.usefixtures("a_group_that_is_behind")


@pytest.mark.parametrize("arguments", [(), ("readers",), ("readers", "--topic", "orders"), ("--topic", "orders")])
def test_the_lag_of_groups_is_shown(run: RunCommand, run_json: RunJson, arguments: tuple[str, ...]) -> None:
    heads, row = table_of(run("lag", *arguments))
    assert heads == ["GROUP", "TOPIC", "QUEUES", "LAG", "IN FLIGHT", "CONSUMED UNTIL"]
    assert row[:4] == ["readers", "orders", "2", "5"]
    queues = run_json("lag", *arguments, "--queues")
    assert [(own["queueId"], own["consumerOffset"], own["maxOffset"], own["lag"]) for own in queues] == [
        (0, 4, 5, 1),
        (1, 1, 5, 4),
    ]


def test_nothing_is_shown_of_other_groups_and_topics(run: RunCommand) -> None:
    for arguments in (("writers",), ("--topic", "single"), ("writers", "--topic", "single")):
        result = run("lag", *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no group has consumer offsets\n")


def test_lag_is_watched(run: RunCommand, run_json: RunJson) -> None:
    shown = run_json("lag", "--watch", "--times", "2", "--interval", "0.01")
    assert [row["lag"] for rows in shown for row in rows] == [5, 5]
    assert len(run("lag", "--watch", "--times", "2", "--interval", "0.01").stdout.splitlines()) == 4


def test_a_number_of_outputs_without_watch_is_refused(run: RunCommand) -> None:
    assert error_of(run("lag", "--times", "2"), 2) == "--times needs --watch"


def test_an_interrupt_ends_a_watch(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rmqpull_client.cli.watching.time.sleep", interrupt)
    result = run("lag", "--watch", "--json")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)


def test_groups_of_a_namespace_are_those_within(broker: RunningBroker, run: RunCommand, run_json: RunJson) -> None:
    """And not the group of the same name outside of it."""
    broker.create_topic("shop%orders", 1)
    broker.send("shop%orders", b"a", b"b")
    namespace = ("--namespace", "shop")
    assert run("reset", "readers", "orders", "--to", "earliest", "--yes", *namespace).exit_code == 0
    for arguments in ((), ("readers",), ("readers", "--topic", "orders")):
        rows = run_json("lag", *arguments, *namespace)
        assert [(row["group"], row["topic"], row["lag"]) for row in rows] == [("readers", "orders", 2)]
    assert [row["group"] for row in run_json("groups", *namespace)] == ["readers"]
    assert [row["lag"] for row in run_json("lag", "readers")] == [5]
