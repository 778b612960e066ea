"""What becomes of a delivery: it is acknowledged, or is redelivered at another time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from rmqpull_broker.core.admin.groups import ensure_group
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.popping.acks import acknowledge, change_invisible_time
from rmqpull_broker.core.popping.pop import pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import PopRequest
from tests.harness.core import CoreHarness


def test_an_old_batch_in_order_does_not_move_a_group_back(core: CoreHarness) -> None:
    core.topic(queue_count=1)
    core.run(lambda draft: ensure_group(draft, "readers"))
    for _ in range(4):
        core.send(Message(b"x", "id"))
    request = PopRequest("readers", "orders", "broker-a", invisible_ms=10_000, in_order=True, max_msg_nums=2)
    in_order = core.run(lambda draft: pop_messages(draft, request, 100, lambda _: 1))
    at_once = replace(request, in_order=False, max_msg_nums=32)  # the group consumes in order no more
    core.run(lambda draft: pop_messages(draft, at_once, 101, lambda _: 1))
    (part,) = in_order.parts
    for offset in part.offsets:
        core.run(
            partial(
                acknowledge, message=DeliveredMessage("readers", part.queue, in_order.make_receipt(part, offset, -1))
            )
        )
    assert core.state.consumer_offsets["readers", part.queue] == 4


@pytest.mark.parametrize(
    ("in_order", "before", "after"),
    [
        (False, "0 100 10000 1 0 broker-a 0 2 77", "2 150 500 1 0 broker-a 0 2 77"),
        (True, "0 100 10000 999 0 broker-a 0 2 77", "2 100 550 999 0 broker-a 0 2 77"),
    ],
)
def test_a_changed_receipt_names_one_message_and_its_new_time(
    core: CoreHarness, in_order: bool, before: str, after: str
) -> None:
    core.topic(queue_count=1)
    core.run(lambda draft: ensure_group(draft, "readers"))
    for _ in range(3):
        core.send(Message(b"x", "id"))
    request = PopRequest("readers", "orders", "broker-a", invisible_ms=10_000, in_order=in_order)
    result = core.run(lambda draft: pop_messages(draft, request, 100, lambda _: 1))
    (part,) = result.parts
    last = DeliveredMessage("readers", part.queue, result.make_receipt(part, 2, 77))
    assert last.receipt.handle == before
    assert core.run(lambda draft: change_invisible_time(draft, last, 500, now_ms=150)).handle == after
