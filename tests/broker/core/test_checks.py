"""What a message may be (rocketmq-semantics 5.5; 5.11, rows 4 to 15)."""

from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_broker.core import columns, limits
from rmqpull_broker.core.checks import check_messages
from rmqpull_broker.core.errors import BrokerError, MessagePropertyConflictWithType
from rmqpull_broker.core.model import Message, StoredMessage, TopicType

BODY_MAX = 4 * 1024 * 1024


def batch_of(*messages: dict[str, Any]) -> pa.RecordBatch:
    stored = (Message(**{"body": b"x", "msg_id": "ID", **fields}) for fields in messages)
    return columns.from_rows([StoredMessage(message, 0, 0, "host") for message in stored])


def numbered(count: int) -> dict[str, str]:
    return {f"p{number}": "" for number in range(count)}


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"body": b""}, "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        ({"body": None}, "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        ({"body": bytes(BODY_MAX + 1)}, "MESSAGE_BODY_TOO_LARGE", "message body cannot exceed the max 4194304"),
        ({"properties": numbered(129)}, "MESSAGE_PROPERTIES_TOO_LARGE", "too many user properties, max is 128"),
        ({"properties": {"a": "", "TAGS": ""}}, "ILLEGAL_MESSAGE_PROPERTY_KEY", "property is used by system: TAGS"),
        ({"properties": {"a\x00": ""}}, "ILLEGAL_MESSAGE_PROPERTY_KEY", "control character"),
        ({"properties": {"a": "\x1f"}}, "ILLEGAL_MESSAGE_PROPERTY_KEY", "control character"),
        ({"properties": {"a": None}}, "ILLEGAL_MESSAGE_PROPERTY_KEY", "has no value"),
        ({"tags": "  "}, "ILLEGAL_MESSAGE_TAG", "blank"),
        ({"tags": "a|b"}, "ILLEGAL_MESSAGE_TAG", "tag cannot contain '|'"),
        ({"tags": "a\x7fb"}, "ILLEGAL_MESSAGE_TAG", "tag cannot contain control character"),
        ({"keys": ("a", " ")}, "ILLEGAL_MESSAGE_KEY", "blank"),
        ({"keys": ("a", None)}, "ILLEGAL_MESSAGE_KEY", "blank"),
        ({"keys": ("a", "b\n")}, "ILLEGAL_MESSAGE_KEY", "key cannot contain control character"),
        (
            {"properties": {"a": "v" * 8_000}, "keys": ("k" * 8_000,), "tags": "t" * 384},
            "MESSAGE_PROPERTIES_TOO_LARGE",
            "the total size of user property is too large, max is 16384",
        ),
        ({"msg_id": ""}, "ILLEGAL_MESSAGE_ID", "message id cannot be empty"),
        ({"msg_id": " \t"}, "ILLEGAL_MESSAGE_ID", "message id cannot be empty"),
        ({"message_group": "  "}, "ILLEGAL_MESSAGE_GROUP", "blank"),
        ({"message_group": "é" * 32}, "ILLEGAL_MESSAGE_GROUP", "max length"),
        ({"message_group": "a\x9f"}, "ILLEGAL_MESSAGE_GROUP", "control character"),
        ({"msg_id": "I" * 32_768}, "MESSAGE_PROPERTIES_TOO_LARGE", "msg properties length limit 32KB"),
        ({"trace_context": "t" * 32_768}, "MESSAGE_PROPERTIES_TOO_LARGE", "msg properties length limit 32KB"),
        ({"born_timestamp_ms": 253_402_300_800_000}, "BAD_REQUEST", "bornTimestamp lies outside"),
        ({"delivery_timestamp_ms": -62_135_596_800_001}, "BAD_REQUEST", "deliveryTimestamp lies outside"),
    ],
)
def test_a_message_that_breaks_a_rule_is_refused_by_its_code(fields: dict[str, Any], code: str, sentence: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        check_messages(batch_of({}, fields), TopicType.NORMAL)
    assert refusal.value.code == code
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"body": bytes(BODY_MAX)},
        {"properties": numbered(128)},
        {"properties": {"a": "v" * 8_000}, "keys": ("k" * 8_000,), "tags": "t" * 383},
        {"properties": {"__SHARDINGKEY": "", "tags": "a|b", " ": "\u00e9"}},
        {"tags": "été \u00a1"},
        {"keys": ("a b", "a|b")},
    ],
)
def test_a_message_within_the_limits_passes(fields: dict[str, Any]) -> None:
    check_messages(batch_of(fields, {}), TopicType.NORMAL)


@pytest.mark.parametrize("group", ["g" * 63, "é" * 31, "a|b c"])
def test_a_message_group_of_less_than_64_bytes_passes(group: str) -> None:
    check_messages(batch_of({"message_group": group}), TopicType.FIFO)


def test_51_property_names_are_reserved() -> None:
    assert len(limits.RESERVED_PROPERTY_KEYS) == 51


@pytest.mark.parametrize("key", sorted(limits.RESERVED_PROPERTY_KEYS))
def test_a_reserved_property_is_refused_by_its_name(key: str) -> None:
    with pytest.raises(BrokerError, match=f"^property is used by system: {key}$"):
        check_messages(batch_of({"properties": {key: "x"}}), TopicType.NORMAL)


# One message breaks every rule; each step repairs the rule that it was refused for.
REPAIRS: list[tuple[str, dict[str, Any]]] = [
    ("MESSAGE_BODY_EMPTY", {"body": b"x"}),
    ("MESSAGE_PROPERTIES_TOO_LARGE", {"properties": {"TAGS": "\n"}}),
    ("ILLEGAL_MESSAGE_PROPERTY_KEY", {"properties": {"a": "\n"}}),
    ("ILLEGAL_MESSAGE_PROPERTY_KEY", {"properties": {"a": "v" * 20_000}}),
    ("ILLEGAL_MESSAGE_TAG", {"tags": "red"}),
    ("ILLEGAL_MESSAGE_KEY", {"keys": ("k",)}),
    ("MESSAGE_PROPERTIES_TOO_LARGE", {"properties": {}}),
    ("ILLEGAL_MESSAGE_ID", {"msg_id": "ID"}),
    ("ILLEGAL_MESSAGE_GROUP", {"message_group": "g"}),
    ("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", {"message_group": None}),
]


def test_a_message_with_many_faults_is_refused_for_the_first_rule() -> None:
    fields: dict[str, Any] = {
        "body": b"", "properties": numbered(200), "tags": "|", "keys": (" ",), "msg_id": "", "message_group": " ",
    }  # fmt: skip
    for code, repair in REPAIRS:
        with pytest.raises(BrokerError) as refusal:
            check_messages(batch_of(fields), TopicType.NORMAL)
        assert refusal.value.code == code
        fields.update(repair)
    check_messages(batch_of(fields), TopicType.NORMAL)


MESSAGES_OF_TYPE: dict[str, dict[str, Any]] = {
    "NORMAL": {},
    "FIFO": {"message_group": "g"},
    "DELAY": {"delivery_timestamp_ms": 5, "message_group": "g"},
    "TRANSACTION": {"transactional": True, "message_group": "g"},
}


@pytest.mark.parametrize("actual", MESSAGES_OF_TYPE)
@pytest.mark.parametrize("expected", [TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY])
def test_a_message_of_another_type_than_its_topic_is_refused(expected: TopicType, actual: str) -> None:
    fields = MESSAGES_OF_TYPE[actual]
    assert Message(b"x", "ID", **fields).topic_type.value == actual
    sentence = f"TopicMessageType validate failed, the expected type is {expected.value}, but actual type is {actual}"
    refused = pytest.raises(MessagePropertyConflictWithType, match=f"^{sentence}$")
    with nullcontext() if actual == expected.value else refused:
        check_messages(batch_of(fields), expected, transactional="transactional" in fields)


def test_a_rule_is_looked_for_in_the_whole_batch_before_the_next_one() -> None:
    with pytest.raises(BrokerError, match="body"):
        check_messages(batch_of({"tags": "|"}, {"body": b""}), TopicType.NORMAL)


@pytest.mark.parametrize("encoding", [0, 3, None])
def test_an_unknown_body_encoding_is_refused(encoding: int | None) -> None:
    batch = batch_of({})
    place = batch.schema.get_field_index("bodyEncoding")
    broken = batch.set_column(place, batch.schema.field(place), pa.array([encoding], pa.int32()))
    with pytest.raises(BrokerError, match="unknown body encoding") as refusal:
        check_messages(broken, TopicType.NORMAL)
    assert refusal.value.code == "MESSAGE_CORRUPTED"


def test_only_the_rows_of_a_slice_are_judged() -> None:
    batch = batch_of(
        {"properties": {"TAGS": "x"}, "keys": (" ",)}, {"properties": {"a": "x"}, "keys": ("k",)}, {"body": b""}
    )
    check_messages(batch.slice(1, 1), TopicType.NORMAL)
