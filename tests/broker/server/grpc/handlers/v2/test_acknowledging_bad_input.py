"""Mutated receipt handles: each call gets a code, and no message is lost that they do not name."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqpull_broker.core.errors import BadRequest, BrokerError, InternalError, InvalidReceiptHandle
from rmqpull_broker.core.popping.receipts import parse_handle
from rmqpull_broker.server.grpc.handlers.v2 import acknowledging
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.hostile_input import limit_cpu
from tests.harness.popping import PopHarness, run_pops

CODES = frozenset(v2.Code.keys())
BODIES = ["a", "b", "c", "d"]
NUMBERS = ("-1", "0", "1", "2", "999", "1000000", "1000001", str(2**63 - 1), str(2**63), "9" * 19, "9" * 5_000)
TEXTS = ("", "broker-a", "broker-b", "x", "1.5", "\u0661", "+1", "0x1", "\0", "1\n", "€" * 9)


class Mutation(NamedTuple):
    """A call with the handle of one of the messages, of which some fields are something else."""

    call: str
    message: int
    fields: dict[int, str]
    length: int

    def apply(self, handle: str) -> str:
        fields = handle.split(" ")
        for index, text in self.fields.items():
            fields[index] = text
        return " ".join([*fields, "more"][: self.length])


MUTATIONS = st.builds(
    Mutation,
    st.sampled_from(("ack", "change", "give_up")),
    st.integers(0, len(BODIES) - 1),
    st.dictionaries(st.integers(0, 8), st.sampled_from((*NUMBERS, *TEXTS)), max_size=3),
    st.sampled_from((9, 9, 9, 8, 10, 5, 0)),
)


async def ask(broker: PopHarness, mutation: Mutation, handle: str) -> str:
    """Calls a method, and returns its code."""
    try:
        if mutation.call == "ack":
            return (await broker.ack(handle))[0]
        if mutation.call == "give_up":
            return await broker.give_up(handle)
        await broker.change(handle, 5_000)
    except BrokerError as error:
        return error.code
    return "OK"


def list_named(handles: list[str]) -> set[tuple[int, int]]:
    """Returns the offset and the time of the delivery of all messages that handles name."""
    named = set()
    for handle in handles:
        try:
            receipt = parse_handle(handle)
        except InvalidReceiptHandle:
            continue
        named.add((receipt.queue_offset, receipt.pop_time_ms))
    return named


@pytest.mark.edge
@pytest.mark.parametrize("in_order", [False, True])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(mutations=st.lists(MUTATIONS, max_size=6))
@limit_cpu
def test_mutated_handles_lose_no_message_that_they_do_not_name(in_order: bool, mutations: list[Mutation]) -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send(*BODIES, message_group="g" if in_order else None)
        received = await broker.receive(invisible_ms=60_000)
        handles = [mutation.apply(received.handles[mutation.message]) for mutation in mutations]
        for mutation, handle in zip(mutations, handles, strict=True):
            assert await ask(broker, mutation, handle) in CODES
        safe = [
            body
            for body, handle in zip(BODIES, received.handles, strict=True)
            if not list_named([handle]) <= list_named(handles)
        ]
        await broker.advance(60_000)
        again = await broker.receive() if safe else received
        assert set(safe) <= set(again.bodies)

    run_pops(story, consume_message_orderly=in_order)


@pytest.mark.parametrize(
    "handle", ["", "x", "0 1000000 60000 1 0 broker-a 0", "a b c d e f g h i", "0 " * 7, "1" * 100_000]
)
@pytest.mark.proves("The text about a receipt handle that cannot be read")
def test_what_is_no_handle_is_refused(handle: str) -> None:
    async def story(broker: PopHarness) -> None:
        assert await broker.ack(handle) == ["INTERNAL_SERVER_ERROR"] * 2
        with pytest.raises(InternalError, match=r"^receipt handle is invalid$"):
            await broker.change(handle, 1_000)
        with pytest.raises(InternalError, match=r"^receipt handle is invalid$"):
            await broker.give_up(handle)

    run_pops(story)


def test_the_acknowledgements_of_one_call_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acknowledging, "BATCH_ACKS_MAX", 2)

    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", "c")
        handles = (await broker.receive()).handles
        with pytest.raises(BadRequest, match="3 acknowledgements are more than the max of 2"):
            await broker.ack(*handles)
        assert await broker.ack(*handles[:2]) == ["OK"] * 3
        assert len(broker.state.popped) == 1

    run_pops(story)
