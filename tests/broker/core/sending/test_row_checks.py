"""What a message may be (rules 5.5, 5.11, rows 4 to 15), judged as a row and as columns alike."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core import limits
from rmqpull_broker.core.errors import BadRequest, BrokerError, MessagePropertyConflictWithType
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, StoredMessage, TopicType
from rmqpull_broker.core.sending.column_checks import check_columns, check_types, find_row_types
from rmqpull_broker.core.sending.row_checks import check_row_types, check_rows
from rmqpull_proto.remoting.properties import PRIORITY, RESERVED

NOW_MS = 1_000
DAY_MS = 86_400_000
BODY_MAX = 4 * 1024 * 1024


def batch_of(*messages: dict[str, Any]) -> pa.RecordBatch:
    """The messages as columns. A priority is a column of its own."""
    made = [Message(**{"body": b"x", "msg_id": "ID", **fields}) for fields in messages]
    batch = columns.from_rows([StoredMessage(message, 0, 0, "host") for message in made])
    priorities = [message.system_properties.get(PRIORITY) for message in made]
    return (
        batch.append_column("priority", pa.array(priorities, pa.string()).cast(pa.int32()))
        if any(priorities)
        else batch
    )


def judge_columns(messages: Sequence[dict[str, Any]], topic_type: TopicType) -> None:
    batch = batch_of(*messages)
    check_columns(batch, NOW_MS)
    check_types(find_row_types(batch), topic_type)


def judge_rows(messages: Sequence[dict[str, Any]], topic_type: TopicType) -> None:
    rows = [Message(**{"body": b"x", "msg_id": "ID", **fields}) for fields in messages]
    check_rows(rows, NOW_MS)
    check_row_types(rows, topic_type)


Judge = Callable[[Sequence[dict[str, Any]], TopicType], None]
both_forms = pytest.mark.parametrize("judge", [judge_columns, judge_rows])


def numbered(count: int) -> dict[str, str]:
    return {f"p{number}": "" for number in range(count)}


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"body": b""}, "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        ({"body": bytes(BODY_MAX + 1)}, "MESSAGE_BODY_TOO_LARGE", "message body cannot exceed the max 4194304"),
        ({"properties": numbered(129)}, "MESSAGE_PROPERTIES_TOO_LARGE", "too many user properties, max is 128"),
        ({"properties": {"a": "", "TAGS": ""}}, "ILLEGAL_MESSAGE_PROPERTY_KEY", "property is used by system: TAGS"),
        ({"properties": {"a\x00": ""}}, "ILLEGAL_MESSAGE_PROPERTY_KEY", "control character"),
        ({"properties": {"a": "\x1f"}}, "ILLEGAL_MESSAGE_PROPERTY_KEY", "control character"),
        ({"tags": "  "}, "ILLEGAL_MESSAGE_TAG", "whitespace"),
        ({"tags": "a|b"}, "ILLEGAL_MESSAGE_TAG", "tag cannot contain '|'"),
        ({"tags": "a\x7fb"}, "ILLEGAL_MESSAGE_TAG", "tag cannot contain control character"),
        ({"keys": ("a", " ")}, "ILLEGAL_MESSAGE_KEY", "whitespace"),
        ({"keys": ("a", "b\n")}, "ILLEGAL_MESSAGE_KEY", "key cannot contain control character"),
        (
            {"properties": {"a": "v" * 8_000}, "keys": ("k" * 8_000,), "tags": "t" * 384},
            "MESSAGE_PROPERTIES_TOO_LARGE",
            "the total size of user property is too large, max is 16384",
        ),
        ({"msg_id": ""}, "ILLEGAL_MESSAGE_ID", "message id cannot be empty"),
        ({"msg_id": " \t"}, "ILLEGAL_MESSAGE_ID", "message id cannot be empty"),
        (
            {"delivery_timestamp_ms": NOW_MS + DAY_MS + 1},
            "ILLEGAL_DELIVERY_TIME",
            "the max delay time of message is too large, max is 86400000",
        ),
        (
            {"system_properties": {PRIORITY: "-1"}},
            "INTERNAL_SERVER_ERROR",
            "The priority must be greater than or equal to 0",
        ),
        ({"message_group": "  "}, "ILLEGAL_MESSAGE_GROUP", "whitespace"),
        ({"message_group": "é" * 32}, "ILLEGAL_MESSAGE_GROUP", "max size 64"),
        ({"message_group": "a\x9f"}, "ILLEGAL_MESSAGE_GROUP", "control character"),
        ({"born_timestamp_ms": 253_402_300_800_000}, "BAD_REQUEST", "bornTimestamp lies outside"),
        ({"delivery_timestamp_ms": -62_135_596_800_001}, "BAD_REQUEST", "deliveryTimestamp lies outside"),
    ],
)
@both_forms
def test_a_message_that_breaks_a_rule_is_refused_by_its_code(
    judge: Judge, fields: dict[str, Any], code: str, sentence: str
) -> None:
    with pytest.raises(BrokerError) as refusal:
        judge([{}, fields], TopicType.NORMAL)
    assert refusal.value.code == code
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"msg_id": "I" * 32_768},
        {"trace_context": "t" * 32_768},
        {"trace_context": "t" * 24_000, "tags": "t" * 8_000, "keys": ("k" * 766,)},
    ],
    ids=["id", "trace context", "together"],
)
@both_forms
def test_stored_properties_above_their_limit_are_refused(judge: Judge, fields: dict[str, Any]) -> None:
    with pytest.raises(BrokerError, match="msg properties length limit 32KB") as refusal:
        judge([{}, fields], TopicType.NORMAL)
    assert refusal.value.code == "MESSAGE_PROPERTIES_TOO_LARGE"


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"body": None}, "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        ({"properties": {"a": None}}, "ILLEGAL_MESSAGE_PROPERTY_KEY", "has no value"),
        ({"keys": ("a", None)}, "ILLEGAL_MESSAGE_KEY", "whitespace"),
    ],
)
def test_a_null_where_only_columns_can_have_one_is_refused(fields: dict[str, Any], code: str, sentence: str) -> None:
    with pytest.raises(BrokerError, match=sentence) as refusal:
        judge_columns([{}, fields], TopicType.NORMAL)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    "fields",
    [
        {"body": bytes(BODY_MAX)},
        {"properties": numbered(128)},
        {"properties": {"a": "v" * 8_000}, "keys": ("k" * 8_000,), "tags": "t" * 383},
        {"properties": {"TRACE_CONTEXT": "", "tags": "a|b", " ": "\u00e9"}},
        {"tags": "été \u00a1"},
        {"keys": ("a b", "a|b")},
        {"trace_context": "t" * 24_000, "tags": "t" * 8_000, "keys": ("k" * 765,)},
    ],
)
@both_forms
def test_a_message_within_the_limits_passes(judge: Judge, fields: dict[str, Any]) -> None:
    judge([fields, {}], TopicType.NORMAL)


@pytest.mark.parametrize("group", ["g" * 63, "é" * 31, "a|b c"])
def test_a_message_group_of_less_than_64_bytes_passes(group: str) -> None:
    check_columns(batch_of({"message_group": group}), NOW_MS)


def test_54_property_names_are_reserved() -> None:
    assert len(RESERVED) == 54


@pytest.mark.parametrize("key", sorted(RESERVED))
def test_a_reserved_property_is_refused_by_its_name(key: str) -> None:
    with pytest.raises(BrokerError, match=f"^property is used by system: {key}$"):
        check_columns(batch_of({"properties": {key: "x"}}), NOW_MS)


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
    ("ILLEGAL_DELIVERY_TIME", {"delivery_timestamp_ms": None}),
    ("INTERNAL_SERVER_ERROR", {"system_properties": {}}),
    ("ILLEGAL_MESSAGE_GROUP", {"message_group": "g"}),
    ("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", {"message_group": None}),
]


@both_forms
def test_a_message_with_many_faults_is_refused_for_the_first_rule(judge: Judge) -> None:
    fields: dict[str, Any] = {
        "body": b"", "properties": numbered(200), "tags": "|", "keys": (" ",), "msg_id": "", "message_group": " ",
        "delivery_timestamp_ms": 1 << 40, "system_properties": {PRIORITY: "-1"},
    }  # fmt: skip
    for code, repair in REPAIRS:
        with pytest.raises(BrokerError) as refusal:
            judge([fields], TopicType.NORMAL)
        assert refusal.value.code == code
        fields.update(repair)
    judge([fields], TopicType.NORMAL)


MESSAGES_OF_TYPE: list[tuple[str, dict[str, Any]]] = [
    ("NORMAL", {}),
    ("NORMAL", {"properties": {"shardingkey": "g"}}),
    ("FIFO", {"message_group": "g"}),
    ("FIFO", {"properties": {"a": "b", "__SHARDINGKEY": "g"}}),
    ("FIFO", {"properties": {"__SHARDINGKEY": ""}}),
    ("PRIORITY", {"system_properties": {PRIORITY: "0"}}),
    ("FIFO", {"system_properties": {PRIORITY: "1"}, "message_group": "g"}),
    ("DELAY", {"system_properties": {PRIORITY: "1"}, "delivery_timestamp_ms": 5}),
    ("DELAY", {"delivery_timestamp_ms": 5, "message_group": "g"}),
    ("DELAY", {"delivery_timestamp_ms": 5, "properties": {"__SHARDINGKEY": "g"}}),
]


@both_forms
@pytest.mark.parametrize(("actual", "fields"), MESSAGES_OF_TYPE)
@pytest.mark.parametrize("expected", [TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY])
def test_a_message_of_another_type_than_its_topic_is_refused(
    judge: Judge, expected: TopicType, actual: str, fields: dict[str, Any]
) -> None:
    assert Message(b"x", "ID", **fields).topic_type.value == actual
    sentence = f"TopicMessageType validate failed, the expected type is {expected.value}, but actual type is {actual}"
    refused = pytest.raises(MessagePropertyConflictWithType, match=f"^{sentence}$")
    with nullcontext() if actual == expected.value else refused:
        judge([fields], expected)


@pytest.mark.parametrize(("seconds", "is_legal"), [("0", True), ("3600", True), ("3601", False)])
def test_a_half_message_may_be_spared_from_checks_for_an_hour(seconds: str, is_legal: bool) -> None:
    half = Message(b"x", "ID", transactional=True, system_properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": seconds})
    text = "^the max transaction recovery time of message is too large, max is 3600$"
    with nullcontext() if is_legal else pytest.raises(BadRequest, match=text):
        check_rows([half], NOW_MS)


@both_forms
def test_a_delivery_time_of_exactly_a_day_from_now_passes(judge: Judge) -> None:
    judge([{"delivery_timestamp_ms": NOW_MS + DAY_MS}], TopicType.DELAY)


@pytest.mark.parametrize(("late_us", "is_legal"), [(999, True), (1_000, False)])
def test_a_part_of_a_millisecond_after_the_max_delay_is_accepted(late_us: int, is_legal: bool) -> None:
    batch = batch_of({"delivery_timestamp_ms": 0})
    place = batch.schema.get_field_index("deliveryTimestamp")
    times = pa.array([(NOW_MS + DAY_MS) * 1000 + late_us], columns.TIMESTAMP)
    with nullcontext() if is_legal else pytest.raises(BrokerError, match="max delay time"):
        check_columns(batch.set_column(place, batch.schema.field(place), times), NOW_MS)


def test_a_delay_level_makes_a_message_a_delay_message() -> None:
    with pytest.raises(MessagePropertyConflictWithType, match="actual type is DELAY"):
        judge_rows([{"system_properties": {"DELAY": "3"}}], TopicType.NORMAL)


def test_a_transactional_message_needs_a_topic_of_its_type() -> None:
    with pytest.raises(MessagePropertyConflictWithType, match="actual type is TRANSACTION"):
        judge_rows([{"transactional": True, "message_group": "g"}], TopicType.FIFO)


# What one rule after the other refuses, each by its own sentence.
FAULTS: dict[str, dict[str, Any]] = {
    "message body cannot be empty": {"body": b""},
    "too many user properties": {"properties": numbered(129)},
    "property is used by system: TAGS": {"properties": {"a": "b", "TAGS": ""}},
    "control character": {"properties": {"a": "b", "c": "\n"}},
    "tag cannot contain '|'": {"tags": "|"},
    "key cannot be the char sequence of whitespace": {"keys": ("k", " ")},
    "the total size of user property": {"properties": {"a": "v" * 20_000}},
    "message id cannot be empty": {"msg_id": ""},
    "the max delay time": {"delivery_timestamp_ms": NOW_MS + DAY_MS + 1},
    "message group cannot be the char sequence of whitespace": {"message_group": " "},
    "the message is illegal": {"trace_context": "t" * 33_000},
    "bornTimestamp lies outside": {"born_timestamp_ms": 253_402_300_800_000},
}


@both_forms
@pytest.mark.parametrize(("first", "second"), list(permutations(FAULTS, 2)))
def test_messages_are_judged_one_after_another(judge: Judge, first: str, second: str) -> None:
    # Messages without faults have properties and keys too, so that a value's place is not its message's.
    good = {"properties": {"p": "1", "q": "2"}, "keys": ("k1", "k2")}
    with pytest.raises(BrokerError, match=re.escape(first)):
        judge([good, {}, FAULTS[first], good, FAULTS[second]], TopicType.NORMAL)


@both_forms
def test_the_type_is_judged_after_all_other_rules(judge: Judge) -> None:
    with pytest.raises(BrokerError, match="body"):
        judge([{"message_group": "g"}, {"body": b""}], TopicType.NORMAL)


TEXTS = st.sampled_from(
    [
        "",
        " ",
        "a",
        "a|b",
        "a\x00",
        "~\x7f",
        "\x85",
        "\u3000",
        "\u4eac",
        "\u00e9" * 40,
        "t" * 9_000,
        "t" * 24_000,
        "TAGS",
    ]
)
FIELDS = st.fixed_dictionaries(
    {"body": st.sampled_from([b"", b"x"]), "msg_id": TEXTS, "keys": st.lists(TEXTS, max_size=2).map(tuple)},
    optional={
        "tags": TEXTS,
        "message_group": TEXTS,
        "trace_context": TEXTS,
        "properties": st.dictionaries(TEXTS | st.just("__SHARDINGKEY"), TEXTS, max_size=3),
        "born_timestamp_ms": st.integers(limits.TIMES_MS[0] - 1, limits.TIMES_MS[1] + 1),
        "delivery_timestamp_ms": st.sampled_from([-1, NOW_MS + DAY_MS, NOW_MS + DAY_MS + 1, limits.TIMES_MS[0] - 1])
        | st.integers(limits.TIMES_MS[0] - 1, limits.TIMES_MS[1] + 1),
    },
)


def verdict(judge: Judge, messages: Sequence[dict[str, Any]], topic_type: TopicType) -> str:
    try:
        judge(messages, topic_type)
    except BrokerError as refusal:
        # Of columns, the text names the property; of single messages it is that of the proxy.
        is_named = re.search("property.* control character", str(refusal))
        return f"{refusal.code} {'control character' if is_named else refusal}"
    return "passes"


@given(st.lists(FIELDS, min_size=1, max_size=3), st.sampled_from([TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY]))
def test_rows_and_columns_are_judged_alike(messages: list[dict[str, Any]], topic_type: TopicType) -> None:
    assert verdict(judge_rows, messages, topic_type) == verdict(judge_columns, messages, topic_type)


@pytest.mark.parametrize("encoding", [0, 3, None])
def test_an_unknown_body_encoding_is_refused(encoding: int | None) -> None:
    batch = batch_of({})
    place = batch.schema.get_field_index("bodyEncoding")
    broken = batch.set_column(place, batch.schema.field(place), pa.array([encoding], pa.int32()))
    with pytest.raises(BrokerError, match="unknown body encoding") as refusal:
        check_columns(broken, NOW_MS)
    assert refusal.value.code == "MESSAGE_CORRUPTED"


def test_only_the_rows_of_a_slice_are_judged() -> None:
    batch = batch_of(
        {"properties": {"TAGS": "x"}, "keys": (" ",)}, {"properties": {"a": "x"}, "keys": ("k",)}, {"body": b""}
    )
    check_columns(batch.slice(1, 1), NOW_MS)
