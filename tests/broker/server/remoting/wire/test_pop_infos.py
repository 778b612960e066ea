"""The texts that describe what a pop received."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.remoting.wire.pop_infos import (
    ExtraInfo,
    QueuePopped,
    parse_extra_info,
    write_consumed_times,
    write_extra_info,
    write_message_offsets,
    write_start_offsets,
)
from rmqpull_proto.remoting.frames import WireError

FIRST, RETRIED = QueuePopped(0, 3, 100, (101, 103)), QueuePopped(1, 0, 5, (5,))


def test_each_queue_has_an_entry() -> None:
    assert write_start_offsets([FIRST, RETRIED]) == "0 3 100;1 0 5"
    assert write_message_offsets([FIRST, RETRIED]) == "0 3 101,103;1 0 5"
    assert (write_start_offsets([]), write_message_offsets([])) == ("", "")


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ({}, "0 3 0"),
        ({101: 0, 103: 0}, "0 3 0"),
        ({101: 2}, "0 qo3%101 2;0 3 0"),
        ({101: 2, 103: 1}, "0 qo3%101 2;0 qo3%103 1;0 3 1"),
    ],
)
def test_messages_that_were_delivered_before_have_entries_of_their_own(times: dict[int, int], text: str) -> None:
    assert write_consumed_times([FIRST._replace(consumed_times=times)]) == text


def test_a_receipt_survives() -> None:
    receipt = ExtraInfo(5, 1_700_000_000_000, 60_000, 999, "broker-a")
    text = write_extra_info(receipt, 1, 0, 7)
    assert text == "5 1700000000000 60000 999 1 broker-a 0 7"
    assert parse_extra_info(text) == receipt


@pytest.mark.parametrize("text", ["", "x", "1 2 3 4 5", "1 2 3 4 5 ", "1 x 3 4 0 broker-a", "1 2 1_0 4 0 broker-a"])
def test_other_texts_are_no_receipts(text: str) -> None:
    with pytest.raises(WireError, match="extraInfo is "):
        parse_extra_info(text)
