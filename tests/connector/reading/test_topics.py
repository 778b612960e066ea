"""Which of the selected topics and queues exist and can be read."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.errors import RequestRefused, TopicMissing
from pyspark_rmqpull.planning.topics import TopicSelection
from pyspark_rmqpull.reading.topics import find_topics
from rmqpull_client.model import Bounds, MessageQueue, TopicBounds
from tests.harness.fake_broker_client import FakeBrokerClient

A0, A1, B0 = MessageQueue("a", "x", 0), MessageQueue("a", "x", 1), MessageQueue("b", "x", 0)


def test_a_named_topic_without_a_queue_to_read_is_refused_before_it_was_read() -> None:
    """A topic without the permission to read has a route, and no readable queue."""
    client = FakeBrokerClient({})
    with pytest.raises(TopicMissing, match=r"^Topic orders at .* has no queue that can be read\. Make it readable"):
        find_topics(client, TopicSelection(names=("orders",)), (), None)
    before = MessageQueue("orders", "a", 0)
    assert find_topics(client, TopicSelection(names=("orders",)), (before,), None)["orders"].queues == {}
    assert find_topics(client, TopicSelection(pattern="ord.*"), (), None)["orders"].queues == {}


@pytest.mark.parametrize(
    ("selection", "known", "is_refused"),
    [
        (TopicSelection(names=("a",)), (A0, A1), True),
        (TopicSelection(pattern="a.*"), (A0, A1), True),
        (TopicSelection(queues=frozenset({A1})), (), True),
        (TopicSelection(queues=frozenset({A0})), (A0, A1), False),
        (TopicSelection(names=("a",)), (A0,), False),
        (TopicSelection(names=("a",)), (), False),
    ],
)
def test_a_queue_whose_permission_to_read_is_gone_is_no_loss(
    selection: TopicSelection, known: tuple[MessageQueue, ...], is_refused: bool
) -> None:
    topic = TopicBounds(None, {A0: Bounds(0, 9)}, unreadable=[A1])
    client = FakeBrokerClient({}, other_topics={"a": topic}, names=["a"])
    if not is_refused:
        assert list(find_topics(client, selection, known, None)["a"].queues) == [A0]
        return
    with pytest.raises(RequestRefused, match=r"does not allow reading topic a on broker x .*updateTopicPerm") as error:
        find_topics(client, selection, known, None)
    assert error.value.code == "NO_PERMISSION"
