"""How the fields of headers are read: numbers, bools, and what is missing."""

from __future__ import annotations

import pytest

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.headers import (
    ConsumerSendMsgBackRequestHeader,
    OffsetResponseHeader,
    PullMessageResponseHeader,
    ResetOffsetRequestHeader,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("000000000000000000000000000012", 12),
        ("-9223372036854775808", -(2**63)),
        ("٣", 3),  # Java reads the digits of all scripts
    ],
)
def test_numbers_that_java_reads(text: str, number: int) -> None:
    assert OffsetResponseHeader.from_fields({"offset": text}).offset == number


@pytest.mark.parametrize("text", ["", "-", "+-1", " 1", "1 ", "1_0", "1.0", "0x1", "9223372036854775808", "9" * 5000])
def test_numbers_that_java_refuses(text: str) -> None:
    with pytest.raises(WireError, match=r"field offset is .* in OffsetResponseHeader, expected a number of 64 bits"):
        OffsetResponseHeader.from_fields({"offset": text})


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("1", False), ("yes", False), ("", False)])
def test_only_true_is_true(text: str, value: bool) -> None:
    reset = {"group": "g", "topic": "t", "timestamp": "0", "isForce": text}
    assert ResetOffsetRequestHeader.from_fields(reset) == ResetOffsetRequestHeader(
        group="g", topic="t", timestamp=0, is_force=value
    )


def test_a_missing_required_field_is_named() -> None:
    with pytest.raises(
        WireError, match="field offset is missing in OffsetResponseHeader, expected a number of 64 bits"
    ):
        OffsetResponseHeader.from_fields({})


def test_most_headers_ignore_bad_numbers_in_optional_fields() -> None:
    back = {"offset": "1", "group": "g", "delayLevel": "0", "maxReconsumeTimes": "many"}
    assert ConsumerSendMsgBackRequestHeader.from_fields(back).max_reconsume_times is None


def test_the_headers_of_pulls_and_sends_do_not_ignore_them() -> None:
    response = {"suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1"}
    assert PullMessageResponseHeader.from_fields(response).offset_delta is None
    with pytest.raises(WireError, match="offsetDelta is 'x'"):
        PullMessageResponseHeader.from_fields({**response, "offsetDelta": "x"})
