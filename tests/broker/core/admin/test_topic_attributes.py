"""Changes of a topic's attributes, as administrators write them."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.admin.topic_attributes import find_topic_type, list_attributes, parse_changes
from rmqpull_broker.core.errors import InternalError
from rmqpull_broker.core.model import TopicConfig, TopicType

FIFO = TopicConfig("orders", 1, 1, TopicType.FIFO)


@pytest.mark.parametrize(
    ("text", "existing", "topic_type"),
    [
        ("", None, TopicType.NORMAL),
        ("+message.type=DELAY", None, TopicType.DELAY),
        ("", FIFO, TopicType.FIFO),
        ("+message.type=NORMAL", FIFO, TopicType.NORMAL),
        ("-message.type", FIFO, TopicType.NORMAL),
    ],
)
def test_changes(text: str, existing: TopicConfig | None, topic_type: TopicType) -> None:
    assert find_topic_type(parse_changes(text), existing) is topic_type


@pytest.mark.proves("Attributes of topics")
@pytest.mark.parametrize(
    ("text", "existing", "words"),
    [
        ("message.type=FIFO", None, "add/alter attribute format is wrong: message.type"),
        ("message.type", FIFO, "delete attribute format is wrong: message.type"),
        ("+message.type=FIFO,+message.type=DELAY", None, r"key duplication: \+message.type"),
        ("-message.type", None, "only add attribute is supported while creating topic. key: message.type"),
        ("+queue.type=BatchCQ", None, "unsupported key: queue.type"),
        ("+message.type=fifo", None, "value is not in set"),
        ("+message.type=LITE", None, "topics of type LITE are not emulated"),
        ("x-message.type", FIFO, "wrong format key: -message.type"),
    ],
)
def test_refusals(text: str, existing: TopicConfig | None, words: str) -> None:
    with pytest.raises(InternalError, match=words):
        find_topic_type(parse_changes(text), existing)


def test_attributes_of_a_topic() -> None:
    assert list_attributes(FIFO) == {"message.type": "FIFO"}
    assert list_attributes(TopicConfig("orders", 1, 1)) == {}
