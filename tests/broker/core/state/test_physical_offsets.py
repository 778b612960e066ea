"""Physical offsets name messages, also after a restart."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.state.physical_offsets import PhysicalOffsets

TOPICS = {name: TopicConfig(name, 4, 4, creation_id=name.upper()) for name in ("orders", "sales")}


def make_offsets(topics: dict[str, TopicConfig] = TOPICS) -> PhysicalOffsets:
    return PhysicalOffsets(topics.get, topics.values)


@given(st.sampled_from([*TOPICS]), st.integers(0, 1023), st.integers(0, (1 << 31) - 1))
def test_a_physical_offset_leads_to_its_message_after_a_restart(topic: str, queue_id: int, offset: int) -> None:
    queue = MessageQueue(topic, "broker-a", queue_id)
    physical_offset = make_offsets().find(queue, offset)
    assert 0 <= physical_offset < 1 << 63
    assert make_offsets().locate("broker-a", physical_offset) == (queue, offset)


def test_a_topic_that_is_created_again_has_other_physical_offsets() -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    before = make_offsets().find(queue, 7)
    again = make_offsets({"orders": replace(TOPICS["orders"], creation_id="again")})
    assert again.locate("broker-a", before) is None
    assert again.find(queue, 7) != before


def test_topics_with_the_same_hash_keep_their_numbers_whichever_is_used_first() -> None:
    topics = {name: TopicConfig(name, 1, 1, creation_id="c") for name in ("t6881", "t40000")}
    found = {}
    for first in topics:
        offsets = make_offsets(topics)
        offsets.find(MessageQueue(first, "broker-a", 0), 0)
        found[first] = [offsets.find(MessageQueue(name, "broker-a", 0), 7) for name in topics]
    assert found["t6881"] == found["t40000"]
    assert len(set(found["t6881"])) == 2


def test_topics_with_the_same_hash_have_different_numbers() -> None:
    topics = {f"t{number}": TopicConfig(f"t{number}", 1, 1, creation_id=str(number)) for number in range(6_000)}
    offsets = make_offsets(topics)
    found = {offsets.find(MessageQueue(name, "broker-a", 0), 0) for name in topics}
    assert len(found) == len(topics)
