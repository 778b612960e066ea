"""Calls with rows of several topics: each topic is checked, keeps its order, and may be gone by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    Forbidden,
    IllegalTopic,
    MessagePropertyConflictWithType,
    PreconditionFailed,
    TopicNotFound,
)
from rmqpull_broker.core.model import PERM_READ, TopicConfig, TopicType
from rmqpull_broker.core.sending.publishing import TopicPart
from rmqpull_broker.core.sending.stage_commands import CommittedStage, stage
from tests.broker.core.sending.test_stage_commands import BATCH, bodies, finish, hand_over
from tests.harness.core import CoreHarness, commit_stages


def hand_over_parts(
    core: CoreHarness,
    *parts: tuple[str, list[bytes]],
    sequence: int = 0,
    counts: Sequence[int] | None = None,
    **texts: Any,
) -> bool:
    """Stages messages of several topics in one call; ``counts`` lies about the number of rows of each."""
    rows = pa.record_batch({"body": pa.array([body for _, own in parts for body in own], pa.binary()), **texts})
    lengths = counts or [len(own) for _, own in parts]
    of_topics = [TopicPart(topic, count) for (topic, _), count in zip(parts, lengths, strict=True)]
    checked = core.check(rows, "", parts=of_topics)
    return core.run(lambda draft: stage(draft, core.sender, BATCH, "a", sequence, checked, core.now_ms))


def test_one_call_takes_rows_of_several_topics_and_each_keeps_its_order(core: CoreHarness) -> None:
    core.topic(queue_count=2)
    core.topic(name="paid")
    hand_over_parts(core, ("orders", [b"1", b"2", b"3"]), ("paid", [b"4", b"5"]))
    hand_over_parts(core, ("paid", [b"6"]), ("orders", [b"7"]), sequence=1)
    assert core.state.stages.all()["a"].topics == {"orders", "paid"}
    finish(core, ("a", 2))
    assert [bodies(core, core.queue(at)) for at in (0, 1)] == [[b"1", b"2"], [b"3", b"7"]]
    assert bodies(core, core.queue(topic="paid")) == [b"4", b"5", b"6"]


def test_a_batch_of_several_topics_may_be_published_at_once(core: CoreHarness) -> None:
    core.topic()
    core.topic(name="late", topic_type=TopicType.DELAY)
    core.topic(name="paid", topic_type=TopicType.FIFO)
    due = pa.array([None, 9_000_000, None], pa.timestamp("us", tz="UTC"))
    groups = pa.array([None, None, "g"], pa.string())
    rows = pa.record_batch({"body": [b"1", b"2", b"3"], "deliveryTimestamp": due, "messageGroup": groups})
    parts = [TopicPart(name, 1) for name in ("orders", "late", "paid")]
    core.publish(rows, "", parts=parts)
    assert bodies(core) == [b"1"]
    assert bodies(core, core.queue(topic="paid")) == [b"3"]
    assert len(core.state.delayed) == 1


TOPICS = {"orders": (3, TopicType.NORMAL), "paid": (1, TopicType.FIFO), "sent": (2, TopicType.FIFO)}
PARTS = st.lists(
    st.tuples(st.sampled_from(list(TOPICS)), st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=5)),
    min_size=1,
    unique_by=lambda part: part[0],
)


@given(st.lists(PARTS, min_size=1, max_size=5))
def test_a_call_of_several_topics_ends_up_like_one_call_for_each(calls: list[list[tuple[str, list[bytes]]]]) -> None:
    together, apart = CoreHarness(), CoreHarness()
    for core in (together, apart):
        for name, (queue_count, topic_type) in TOPICS.items():
            core.topic(queue_count, topic_type, name)
    sequence = 0
    for place, parts in enumerate(calls):
        groups = pa.array([None if topic == "orders" else "g" for topic, own in parts for _ in own], pa.string())
        hand_over_parts(together, *parts, sequence=place, messageGroup=groups)
        for topic, own in parts:
            group: list[str | None] = [None if topic == "orders" else "g"] * len(own)
            hand_over(apart, *own, sequence=sequence, topic=topic, messageGroup=pa.array(group, pa.string()))
            sequence += 1
    finish(together, ("a", len(calls)))
    finish(apart, ("a", sequence))
    for name, (queue_count, _) in TOPICS.items():
        for at in range(queue_count):
            assert bodies(together, together.queue(at, name)) == bodies(apart, apart.queue(at, name))


@pytest.mark.parametrize(
    ("parts", "columns", "error", "sentence"),
    [
        ([("orders", [b"1"]), ("gone", [b"2"])], {}, TopicNotFound, r"topic\[gone\]"),
        ([("orders", [b"1"]), ("a b", [b"2"])], {}, IllegalTopic, r"topic\[a b\]: The specified topic: a b, contains"),
        ([("orders", [b"1"]), ("closed", [b"2"])], {}, Forbidden, r"topic\[closed\]: no writable queue"),
        (
            [("orders", [b"1"]), ("fifo", [b"2"])],
            {},
            MessagePropertyConflictWithType,
            r"topic\[fifo\]: .*",
        ),
        ([("orders", [b"1"]), ("paid", [b"2"]), ("orders", [b"3"])], {}, BadRequest, "names topic orders twice"),
        (
            [("orders", [b"1"]), ("paid", [b"2"])],
            {"counts": [1, 2]},
            BadRequest,
            "3 rows together, but the batch has 2",
        ),
        ([("orders", [b"1"]), ("paid", [])], {}, BadRequest, "part of topic paid has 0 rows"),
        (
            [("orders", [b"1"]), ("paid", [b"2"])],
            {"brokerName": ["broker-a", "broker-a"], "queueId": pa.array([0, 9], pa.int32())},
            BadRequest,
            r"topic\[paid\]: row 0 names queue 9",
        ),
    ],
)
def test_every_topic_of_a_call_is_checked_and_one_fault_refuses_all_of_it(
    core: CoreHarness,
    parts: list[tuple[str, list[bytes]]],
    columns: dict[str, Any],
    error: type[BrokerError],
    sentence: str,
) -> None:
    for name in ("orders", "paid"):
        core.topic(name=name)
    core.topic(name="fifo", topic_type=TopicType.FIFO)
    core.run(lambda draft: put_topic(draft, TopicConfig("closed", 1, 1, perm=PERM_READ)))
    with pytest.raises(error, match=sentence):
        hand_over_parts(core, *parts, **columns)
    assert not core.state.stages.all()


def test_a_topic_of_a_call_that_is_gone_refuses_its_commit(core: CoreHarness) -> None:
    for name in ("orders", "paid", "sent"):
        core.topic(name=name)
    hand_over_parts(core, ("orders", [b"1"]), ("paid", [b"2", b"3"]), ("sent", [b"4"]))
    core.run(lambda draft: delete_topic(draft, "paid"))
    with pytest.raises(PreconditionFailed, match="topic paid, for which stage a has messages, is deleted"):
        core.run(lambda draft: commit_stages(draft, BATCH, [CommittedStage("a", 1)]))
    assert [bodies(core, core.queue(topic=name)) for name in ("orders", "sent")] == [[], []]
