"""``rmqpull reset``: how the offsets of a group are set, and when not."""

from __future__ import annotations

import pytest

from tests.harness.cli import RunCommand, RunJson, error_of

pytestmark = pytest.mark.usefixtures("a_group_that_is_behind")


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        (["--to", "earliest"], {0: (4, 0), 1: (1, 0)}),
        (["--to", "latest"], {0: (4, 5), 1: (1, 5)}),
        (["--to-time", "2013-01-31T12:00:00Z"], {0: (4, 0), 1: (1, 0)}),
        (["--to-time", "9999-12-31T00:00:00Z"], {0: (4, 5), 1: (1, 5)}),
        (["--queue", "1", "--to-offset", "3"], {1: (1, 3)}),
    ],
)
def test_offsets_are_reset(run_json: RunJson, arguments: list[str], targets: dict[int, tuple[int, int]]) -> None:
    reset = ("reset", "readers", "orders", *arguments)
    for last in ("--dry-run", "--yes"):
        before = {own["queueId"]: own["consumerOffset"] for own in run_json("lag", "readers", "--queues")}
        assert before == {0: 4, 1: 1}
        assert {row["queueId"]: (row["from"], row["to"]) for row in run_json(*reset, last)} == targets
    after = {own["queueId"]: own["consumerOffset"] for own in run_json("lag", "readers", "--queues")}
    assert after == before | {queue_id: target for queue_id, (_, target) in targets.items()}


def test_a_reset_asks_first(run: RunCommand, run_json: RunJson) -> None:
    result = run("reset", "readers", "orders", "--to", "latest", stdin="n\n")
    assert (result.exit_code, "Set these consumer offsets of group readers?" in result.stderr) == (1, True)
    assert run_json("lag")[0]["lag"] == 5
    assert run("reset", "readers", "orders", "--to", "latest", stdin="y\n").exit_code == 0
    assert run_json("lag")[0]["lag"] == 0


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (["none", "--to", "latest"], 1, "topic none does not exist"),
        (["orders"], 2, "give exactly one of --to, --to-time and --to-offset"),
        (["orders", "--to", "latest", "--to-offset", "1"], 2, "give exactly one of"),
        (["orders", "--to-offset", "1"], 2, "--to-offset needs --queue"),
        (
            ["orders", "--queue", "0", "--to-offset", "6"],
            1,
            "offset 6 is outside queue orders/broker-a/0, which has [0, 5]",
        ),
        (["orders", "--to", "latest", "--json"], 2, "--json needs --yes or --dry-run"),
    ],
)
def test_an_impossible_reset_is_refused(run: RunCommand, arguments: list[str], exit_code: int, sentence: str) -> None:
    assert sentence in error_of(run("reset", "readers", *arguments), exit_code)
