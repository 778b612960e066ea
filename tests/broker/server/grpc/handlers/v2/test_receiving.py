"""ReceiveMessage, AckMessage and related calls, as stories of a group (rules 3.17, 5.12, 5.13)."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.errors import (
    IllegalInvisibleTime,
    InternalError,
)
from rmqpull_broker.core.popping.receipts import parse_handle
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.server.grpc.handlers.v2.receiving import receive_message
from rmqpull_broker.server.runtime.pops import ENDS_EARLY_MS
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.popping import GROUP, RETRY_TOPIC, TOPIC, PopHarness, run_pops

# --- concurrent delivery ----------------------------------------------------------------------------------------------


def test_a_message_is_delivered_once_and_is_gone_when_it_is_acknowledged() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", "c")
        first, second = await broker.receive(2), await broker.receive(2)
        assert (first.bodies, second.bodies) == (["a", "b"], ["c"])
        assert (first.code, first.attempts, broker.lag()) == ("OK", [1, 1], 0)
        assert await broker.ack(*first.handles, *second.handles) == ["OK"] * 4
        assert len(broker.state.popped) == 0
        nothing = await broker.receive_nothing()
        assert (nothing.code, nothing.text) == ("MESSAGE_NOT_FOUND", "no new message")

    run_pops(story)


def test_what_is_not_acknowledged_is_redelivered_after_its_invisible_time() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b")
        first = await broker.receive()
        await broker.ack(first.handles[0])
        await broker.advance(9_999)
        assert broker.stored(RETRY_TOPIC) == []
        await broker.advance(1)
        again = await broker.receive()
        assert (again.bodies, again.attempts) == (["b"], [2])
        assert again.messages[0].topic.name == TOPIC
        assert parse_handle(again.handles[0]).topic_kind == 1
        assert await broker.ack(*again.handles) == ["OK", "OK"]
        await broker.advance(60_000)
        assert (len(broker.state.popped), len(broker.stored(RETRY_TOPIC))) == (0, 1)

    run_pops(story)


def test_attempts_are_counted_until_the_message_becomes_a_dead_letter() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        attempts = []
        for _ in range(3):
            attempts += (await broker.receive()).attempts
            await broker.advance(10_000)
        last = await broker.receive()
        assert (attempts, last.code, last.text) == ([1, 2, 3], "MESSAGE_NOT_FOUND", "no match message")
        assert [row.message.body for row in broker.stored(f"%DLQ%{GROUP}")] == [b"a"]
        assert len(broker.state.popped) == 0

    run_pops(story, retry_max_times=2)


def test_several_messages_become_dead_letters_at_once() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", "c")
        for _ in range(2):
            assert (await broker.receive()).bodies == ["a", "b", "c"]
            await broker.advance(10_000)
        assert (await broker.receive()).text == "no match message"
        dead = broker.stored(f"%DLQ%{GROUP}")
        assert [(row.message.body, row.queue_offset) for row in dead] == [(b"a", 0), (b"b", 1), (b"c", 2)]
        assert len(broker.state.popped) == 0

    run_pops(story, retry_max_times=1)


def test_a_message_that_cannot_become_a_dead_letter_stays_in_flight(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise InternalError("MESSAGE_ILLEGAL")

    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b")
        await broker.receive()
        await broker.advance(10_000)
        monkeypatch.setattr(Sender, "send_back", refuse)
        assert (await broker.receive()).text == "no match message"
        assert len(broker.state.popped) == 2
        assert "cannot become a dead letter: MESSAGE_ILLEGAL" in caplog.text

    run_pops(story, retry_max_times=0)


def test_messages_of_an_ordered_batch_are_acknowledged_in_one_call() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", "c", message_group="g")
        found = await broker.receive()
        assert await broker.ack(*found.handles[:2]) == ["OK"] * 3
        assert broker.lag() == 1
        await broker.advance(10_000)
        assert (await broker.receive()).bodies == ["c"]

    run_pops(story, consume_message_orderly=True)


def test_filters_drop_what_does_not_match() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("r1", tags="red", properties={"size": "3"})
        await broker.send("b1", tags="blue", properties={"size": "9"})
        assert (await broker.receive(expression="blue")).bodies == ["b1"]
        assert (await broker.receive(expression="size > 5", sql=True, group="others")).bodies == ["b1"]
        assert (await broker.receive_nothing()).messages == []
        bad = await broker.receive(expression="size >", sql=True)
        assert (bad.code, bad.text) == ("INTERNAL_SERVER_ERROR", "parse the consumer's subscription failed")

    run_pops(story)


def test_what_a_broken_stream_has_not_brought_is_redelivered_after_a_second() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", "c")
        queue = v2.MessageQueue(topic=v2.Resource(name=TOPIC))
        request = rpc.ReceiveMessageRequest(group=v2.Resource(name=GROUP), message_queue=queue, batch_size=32)
        request.invisible_duration.FromMilliseconds(10_000)
        stream: Any = receive_message(broker.service, request, broker.caller())
        read = [await anext(stream) for _ in range(3)]
        assert [each.message.body for each in read[1:]] == [b"a", b"b"]
        await stream.aclose()  # nobody has taken the second message from the stream
        await broker.advance(0)
        await broker.advance(1_000)
        assert [row.message.body for row in broker.stored(RETRY_TOPIC)] == [b"b", b"c"]

    run_pops(story)


# --- receipts ---------------------------------------------------------------------------------------------------------


def test_a_changed_invisible_time_has_a_new_handle() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        (old,) = (await broker.receive()).handles
        await broker.advance(9_000)
        new = await broker.change(old, 30_000)
        before, after = parse_handle(old), parse_handle(new)
        assert (after.pop_time_ms - before.pop_time_ms, after.invisible_ms) == (9_000, 30_000)
        assert after._replace(pop_time_ms=0, invisible_ms=0) == before._replace(pop_time_ms=0, invisible_ms=0)
        await broker.advance(29_999)
        assert broker.stored(RETRY_TOPIC) == []
        assert await broker.ack(new) == ["OK", "OK"]
        await broker.advance(60_000)
        assert broker.stored(RETRY_TOPIC) == []

    run_pops(story)


def test_a_message_that_is_given_up_is_a_dead_letter_at_once() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        (handle,) = (await broker.receive()).handles
        assert [await broker.give_up(handle), await broker.give_up(handle)] == ["OK", "OK"]
        assert [row.message.body for row in broker.stored(f"%DLQ%{GROUP}")] == [b"a"]
        await broker.advance(60_000)
        assert broker.stored(RETRY_TOPIC) == []

    run_pops(story)


def test_handles_expire_and_each_has_its_own_status() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b")
        (old,) = (await broker.receive(1)).handles
        await broker.advance(9_000)
        (young,) = (await broker.receive(1)).handles
        await broker.advance(1_000)
        assert await broker.ack(old) == ["INVALID_RECEIPT_HANDLE"] * 2
        assert await broker.ack(old, young) == ["MULTIPLE_RESULTS", "INVALID_RECEIPT_HANDLE", "OK"]
        foreign = parse_handle(young)._replace(broker_name="elsewhere").handle
        assert await broker.ack(foreign) == ["INVALID_RECEIPT_HANDLE"] * 2

    run_pops(story)


def test_a_wait_ends_before_the_deadline_of_a_caller_that_waits_as_long_as_its_call_takes() -> None:
    """A message redelivered meanwhile reaches the caller, whose deadline is its time to wait. It wakes no receive."""

    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        await broker.receive()
        await broker.advance(9_000)
        waiting = await broker.wait(broker.receive())
        await broker.advance(4_000)
        assert not waiting.done()
        await broker.advance(1_000 - ENDS_EARLY_MS)
        assert waiting.done()
        assert ((await waiting).bodies, (await waiting).attempts) == (["a"], [2])

    run_pops(story)


@pytest.mark.parametrize(
    ("left_ms", "request_timeout_ms", "waited_ms"),
    [(9_000, 6_000, 6_000), (13_000, 8_000, 9_000), (9_000, 0, 9_000), (7_000, 6_000, 5_000), (40_000, 6_000, 20_000)],
)
def test_without_a_time_to_wait_the_deadline_and_the_request_timeout_give_one(
    left_ms: int, request_timeout_ms: int, waited_ms: int
) -> None:
    """The deadline less half of the request timeout, within 5 s and 20 s."""

    async def story(broker: PopHarness) -> None:
        channel, consumer = ClientChannel("tester", "tester"), ConsumerData(GROUP)
        broker.clients.introduce(ClientProfile(channel, "SIMPLE_CONSUMER", (), consumer, request_timeout_ms), [])
        waiting = await broker.wait(broker.receive(poll_ms=None, remaining_ms=left_ms))
        await broker.advance(waited_ms - ENDS_EARLY_MS - 1)
        assert not waiting.done()
        await broker.advance(1)
        assert (await waiting).code == "MESSAGE_NOT_FOUND"

    run_pops(story)


# --- in order ---------------------------------------------------------------------------------------------------------


def test_in_order_what_is_not_acknowledged_is_redelivered_before_all_others() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", "c", message_group="g")
        first = await broker.receive(2)
        await broker.ack(first.handles[0])
        waiting = await broker.wait(broker.receive(2, attempt_id="second"))
        await broker.advance(4_000)
        await broker.change(first.handles[1], 1_000)
        await broker.advance(1_000)
        again = await waiting if waiting.done() else await broker.receive(2, attempt_id="second")
        if not again.bodies:
            again = await broker.receive(2, attempt_id="second")
        assert (again.bodies, again.attempts) == (["b", "c"], [2, 1])
        assert (await broker.receive(2, attempt_id="second")).bodies == ["b", "c"]
        assert broker.stored(RETRY_TOPIC) == []

    run_pops(story, consume_message_orderly=True)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_an_invisible_time_of_more_than_twelve_hours_is_refused() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        (handle,) = (await broker.receive()).handles
        with pytest.raises(IllegalInvisibleTime):
            await broker.change(handle, 43_200_001)

    run_pops(story)


def test_a_client_without_settings_is_refused() -> None:
    async def story(broker: PopHarness) -> None:
        broker.clients.terminate("tester", None)
        assert (await broker.receive()).code == "INTERNAL_SERVER_ERROR"

    run_pops(story)
