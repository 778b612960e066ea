"""Receipt handles: the same text both ways, and a refusal for any other text (rules 5.12.2)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.errors import InvalidReceiptHandle
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.popping.receipts import Receipt, TopicKind, parse_handle
from tests.harness.hostile_input import limit_cpu

RECEIPT = Receipt(3, 1_000, 60_000, 7, TopicKind.NORMAL, "broker-a", 2, 5, 900)
LONGS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(codec="ascii", exclude_characters=" "), min_size=1)


def test_a_handle_has_nine_fields() -> None:
    assert RECEIPT.handle == "3 1000 60000 7 0 broker-a 2 5 900"
    assert parse_handle("3 1000 60000 7 0 broker-a 2 5") == RECEIPT._replace(physical_offset=-1)


@given(st.builds(Receipt, LONGS, LONGS, LONGS, LONGS, st.sampled_from(TopicKind), NAMES, LONGS, LONGS, LONGS))
def test_a_handle_says_all_of_its_receipt(receipt: Receipt) -> None:
    assert parse_handle(receipt.handle) == receipt


@pytest.mark.edge
@given(st.text() | st.lists(st.sampled_from(["0", "-1", "x", "", "9" * 30, "²"]), max_size=12).map(" ".join))
@limit_cpu
def test_any_other_text_is_refused(text: str) -> None:
    with suppress(InvalidReceiptHandle):
        parse_handle(parse_handle(text).handle)


@pytest.mark.parametrize(
    ("kind", "topic", "queue"),
    [
        (TopicKind.NORMAL, "orders", "orders"),
        (TopicKind.RETRY, "orders", "%RETRY%readers_orders"),
        (TopicKind.RETRY, "%RETRY%readers_orders", "%RETRY%readers_orders"),
    ],
)
def test_a_receipt_knows_its_queue(kind: TopicKind, topic: str, queue: str) -> None:
    assert RECEIPT._replace(topic_kind=kind).find_queue("readers", topic) == MessageQueue(queue, "broker-a", 2)


def test_a_receipt_expires_when_its_message_is_visible_again() -> None:
    assert [RECEIPT.is_expired(at_ms) for at_ms in (60_999, 61_000)] == [False, True]
