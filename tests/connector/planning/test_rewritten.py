"""A loss of rewritten history says where the query continues, and what that time is."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.planning.rewritten import Rewritten
from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_client.witness import Witness

QUEUE = MessageQueue("orders", "broker-a", 0)
WITNESS = {QUEUE: Witness(6, 1_700_000_000_000, "digest", "remoting")}
AT_MESSAGE = "stored at 2023-11-14T22:13:20.000+00:00 or later, when that message was stored"
AT_PLAN = "stored at 1970-01-01T00:00:05.000+00:00 or later, when the query planned its last micro-batch"


@pytest.mark.parametrize(
    ("witnesses", "planned_ms", "resume"),
    [
        (WITNESS, 5_000, AT_MESSAGE),
        ({}, 5_000, AT_PLAN),
        ({}, None, "the earliest message of the queue"),
    ],
    ids=["the time of the witness", "the time of the plan", "no time"],
)
def test_a_queue_that_ends_too_early_continues_at_a_time(
    witnesses: dict[MessageQueue, Witness], planned_ms: int | None, resume: str
) -> None:
    loss = Rewritten(frozenset(), witnesses, planned_ms).make_loss(QUEUE, 7, Bounds(0, 3))
    assert (loss.from_offset, loss.until_offset) == (7, 7)
    assert "ends at offset 3, before offset 7" in loss.text
    assert resume in loss.resume
    assert loss.resume.endswith("may read some messages twice")


def test_a_queue_that_has_grown_past_its_witness_says_what_it_has_not_read() -> None:
    loss = Rewritten(frozenset({QUEUE}), WITNESS).make_loss(QUEUE, 7, Bounds(0, 30))
    assert "has a different message at offset 6" in loss.text
    assert "grown past offset 7" in loss.text
    assert AT_MESSAGE in loss.resume


def test_an_unfinished_micro_batch_is_read_as_planned_first() -> None:
    (loss,) = Rewritten(frozenset({QUEUE}), WITNESS).make_losses_of_unfinished()
    assert (loss.from_offset, loss.until_offset) == (7, 7)
    assert loss.resume.startswith("reads this micro-batch as it was planned")
