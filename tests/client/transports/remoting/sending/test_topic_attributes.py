"""What the attributes of a topic, as brokers tell them, say about the messages that it takes."""

from __future__ import annotations

import pytest

from rmqpull_client.transports.remoting.sending.topic_attributes import TopicAttributes, read_attributes

UNTYPED = frozenset({"NORMAL", "FIFO", "DELAY"})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (b"{}", TopicAttributes(UNTYPED)),
        (b"no JSON", TopicAttributes(UNTYPED)),
        (b'{"attributes":{"message.type":"FIFO"}}', TopicAttributes(frozenset({"FIFO"}))),
        (b'{"attributes":{"message.type":"MIXED"}}', TopicAttributes(UNTYPED | {"TRANSACTION"})),
        (b'{"attributes":{"message.type":"PRIORITY"}}', TopicAttributes(frozenset({"NORMAL", "PRIORITY"}))),
        (b'{"attributes":{"cleanup.policy":"COMPACTION"}}', TopicAttributes(UNTYPED, is_compacted=True)),
        (b'{"attributes":{"cleanup.policy":"DELETE"}}', TopicAttributes(UNTYPED)),
    ],
)
def test_attributes(settings: bytes, expected: TopicAttributes) -> None:
    assert read_attributes(settings) == expected
