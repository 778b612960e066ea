"""The offset file has the format of RocketMQ's clients."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.local_file import format_offset_table, parse_offset_table

WRITTEN_BY_ROCKETMQ = Path(__file__).parent / "offset_files" / "rocketmq-5.3.3.json"
"""By LocalFileOffsetStore of Apache's Java client 5.3.3, with fastjson 1.2.83."""

OFFSETS = {
    MessageQueue("%RETRY%x", 'b"r', 2): 3,
    MessageQueue("orders", "broker-a", 0): 12,
    MessageQueue("orders", "broker-a", 1): 72,
}

QUEUES = st.builds(MessageQueue, st.text(), st.text(), st.integers(0, 2**31 - 1))


def test_a_file_of_rocketmq_is_parsed_and_formatted_byte_by_byte() -> None:
    text = WRITTEN_BY_ROCKETMQ.read_text(encoding="utf-8")
    assert parse_offset_table(text) == OFFSETS
    assert format_offset_table(OFFSETS) == text


def test_an_empty_table_is_formatted_as_rocketmq_does() -> None:
    assert format_offset_table({}) == '{\n\t"offsetTable":{}\n}'


@given(st.dictionaries(QUEUES, st.integers(0, 2**63 - 1), max_size=5))
def test_a_formatted_table_is_parsed_as_the_same_table(offsets: dict[MessageQueue, int]) -> None:
    assert parse_offset_table(format_offset_table(offsets)) == offsets


@pytest.mark.parametrize(
    "text",
    [
        '{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7}}',
        ' { "offsetTable" : { { "topic" : "t" , "queueId" : 1 , "brokerName" : "b" } : 7 } } \n',
        '{"dataVersion":{"counter":3},"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7},"more":[1]}',
    ],
)
def test_blanks_order_and_other_fields_are_ignored(text: str) -> None:
    assert parse_offset_table(text) == {MessageQueue("t", "b", 1): 7}


def test_a_table_may_be_missing() -> None:
    assert parse_offset_table("{}") == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected '{' instead of '' at character 0"),
        ('{"offsetTable":{', "Expecting value"),
        ('{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7', "expected ',' instead of '' at character 60"),
        ('{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}}}', "expected ':' instead of '}' at character 58"),
        ('{"offsetTable":{"t":7}}', "expected a queue instead of 't'"),
        ('{"offsetTable":{{"brokerName":"b","topic":"t"}:7}}', "expected a queue and its offset"),
        (
            '{"offsetTable":{{"brokerName":"b","queueId":true,"topic":"t"}:7}}',
            "expected a queue and its offset instead of ",
        ),
        ('{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7.0}}', "'t'} and 7.0"),
        (
            '{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:9223372036854775808}}',
            "expected a queue and its offset",
        ),
        ("{} {}", "unexpected text at character 3"),
        ('{"more":' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_any_other_text_is_refused_with_the_place_of_the_error(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_offset_table(text)


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        offsets = parse_offset_table('{"offsetTable":{' + text)
    except ValueError:
        return
    assert all(isinstance(queue, MessageQueue) for queue in offsets)
