"""Parked pulls: how long it takes to wake one among many, and those of the remoting protocol."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

from bench.broker_load import GROUP, Call, calls, checked, message, queue
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand, decode_command, encode_command
from rmqpull_proto.remoting.frames import PREFIX_BYTES
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS, MESSAGING

_CONNECTIONS = 32
_SUSPEND, _SUBSCRIPTION = 2, 4
"""Bits of a pull over the remoting protocol: it may park, and it has its own subscription."""
_CHECKS_MAX = 100
"""The number of checks that may interrupt a run before it fails."""


async def parked_wake_ups(
    endpoints: str, topic: str, parked: int, wake_ups: int, when_parked: Callable[[], None]
) -> list[float]:
    """Returns the milliseconds from the start of a send to the response of the one pull that it wakes, among ``parked``
    pulls.

    Each figure contains a send, its response and the response of the pull, with the client's share. All pulls wait for
    one queue, each for a tag of its own, so the broker compares each message with all filters. ``when_parked`` is
    called when they are parked, and may look at the server.

    Every 5 s the broker checks parked pulls, and responds to those whose queue got other messages. They are parked
    again, and a figure from the time of a check does not count.
    """
    async with calls(endpoints, _CONNECTIONS) as call:
        pulls = _ParkedPulls(call, topic, parked)
        await pulls.park_answered()
        when_parked()
        took_ms: list[float] = []
        checks = 0
        gc.collect()
        gc.disable()  # the client's garbage of ten thousand calls is not the broker's time
        try:
            while len(took_ms) < wake_ups:
                one = await pulls.wake(len(took_ms) % parked)
                if pulls.others_answered:
                    checks += 1
                    if checks > _CHECKS_MAX:
                        raise SystemExit("checks answer parked pulls faster than they are parked again")
                    await pulls.park_answered()
                else:
                    took_ms.append(one)
        finally:
            gc.enable()
        await pulls.cancel()
        return took_ms


async def parked_pulls(endpoints: str, topic: str, parked: int, when_parked: Callable[[], None]) -> None:
    """Parks pulls like :func:`parked_wake_ups` and calls ``when_parked`` on another thread when they are parked.
    Meanwhile the client continues to receive responses.
    """
    async with calls(endpoints, _CONNECTIONS) as call:
        pulls = _ParkedPulls(call, topic, parked)
        await pulls.park_answered()
        await asyncio.to_thread(when_parked)
        await pulls.cancel()


async def park_over_remoting(address: str, topic: str, parked: int, when_parked: Callable[[], None]) -> None:
    """Parks pulls of the remoting protocol, on as many connections as the others, and calls ``when_parked``."""
    host, port = address.rsplit(":", 1)
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(_CONNECTIONS)]
    for number in range(parked):
        opened[number % _CONNECTIONS][1].write(encode_command(_make_pull(topic, number)))
    for reader, writer in opened:  # the request after the pulls is answered when all of them have come in
        last = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"}, opaque=parked)
        writer.write(encode_command(last))
        size = int.from_bytes(await reader.readexactly(PREFIX_BYTES), "big")
        answer = decode_command(await reader.readexactly(size))
        if (answer.opaque, answer.code) != (parked, 0):
            raise SystemExit(f"a pull was answered instead of parked: {answer.code} {answer.remark}")
    when_parked()
    for _, writer in opened:
        writer.close()


def _make_pull(topic: str, number: int) -> RemotingCommand:
    fields = {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": _SUSPEND | _SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": 300_000,
        "subscription": f"tag{number}",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    texts = {name: str(value) for name, value in fields.items()}
    return RemotingCommand(RequestCode.PULL_MESSAGE, texts, opaque=number)


class _ParkedPulls:
    """Pulls by number, each with its offset."""

    def __init__(self, call: Call, topic: str, count: int) -> None:
        self._call = call
        self._topic = topic
        self._offsets = [0] * count
        self._waiting: dict[int, asyncio.Task[v1.PullColumnsResponse]] = {}
        self.others_answered = False
        """Whether a pull got a response that should not have been woken."""
        self._awaited: int | None = None

    async def park_answered(self) -> None:
        """Parks all pulls that got a response. Returns when every pull waits at the server."""
        while answered := [number for number in range(len(self._offsets)) if self._is_answered(number)]:
            for number in answered:
                self._park(number)
            await asyncio.gather(*map(self._have_come_in, range(_CONNECTIONS)))
        self.others_answered = False

    def _is_answered(self, number: int) -> bool:
        task = self._waiting.get(number)
        if task is not None and task.done():
            self._offsets[number] = checked(task.result()).queues[0].next_offset
        return task is None or task.done()

    def _park(self, number: int) -> None:
        request = v1.PullColumnsRequest(
            group=GROUP,
            queues=[v1.QueuePull(queue=queue(self._topic, 0), offset=self._offsets[number])],
            filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression=f"tag{number}"),
            columns=["queueOffset"],
            long_polling_timeout_ms=300_000,
        )

        async def pull() -> v1.PullColumnsResponse:
            response: v1.PullColumnsResponse = await self._call(COLUMNS.methods["PullColumns"], request, number)
            self.others_answered |= number != self._awaited
            return response

        self._waiting[number] = asyncio.ensure_future(pull())

    async def wake(self, number: int) -> float:
        """Returns the milliseconds from a send to the response of one pull, which is then parked again."""
        self._awaited = number
        send = messaging.SendMessageRequest(messages=[message(self._topic, b"x", f"tag{number}")])
        begun = time.perf_counter()
        checked(await self._call(MESSAGING.methods["SendMessage"], send))
        response = checked(await self._waiting[number])
        took_ms = (time.perf_counter() - begun) * 1000
        self.others_answered |= response.queues[0].row_count == 0  # a check came first
        self._offsets[number] = response.queues[0].max_offset
        self._park(number)
        await self._have_come_in(number)
        return took_ms

    async def _have_come_in(self, connection: int) -> None:
        """Returns when the server has all calls. Calls of a connection arrive in order, so a last one on each tells."""
        bounds = v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=self._topic)])
        checked(await self._call(COLUMNS.methods["QueryBounds"], bounds, connection))

    async def cancel(self) -> None:
        """Cancels all pulls."""
        for task in self._waiting.values():
            task.cancel()
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)
