"""Parked pulls: how long one of many takes to be woken."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

from bench.broker_load import GROUP, Call, calls, checked, message, queue
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS, MESSAGING

_CONNECTIONS = 32
_CHECKS_MAX = 100
"""Checks that may come in between before a run is given up."""


async def parked_wake_ups(
    endpoints: str, topic: str, parked: int, wake_ups: int, settled: Callable[[], None]
) -> list[float]:
    """Milliseconds from the start of a send to the answer of the one pull that it wakes, among ``parked`` pulls.

    Each of them contains a send, its answer and the answer of the pull, with the client's share of both. All pulls wait
    for one queue, each for a tag of its own: every arrival is held against the filters of all. ``settled`` is called
    when they wait, and may look at the server.

    Every 5 s a check answers all pulls that something else arrived for. Whoever it answers is parked again, and what
    was measured meanwhile does not count: the figure is that of a broker on which the others wait.
    """
    async with calls(endpoints, _CONNECTIONS) as call:
        pulls = _ParkedPulls(call, topic, parked)
        await pulls.park_answered()
        settled()
        took_ms: list[float] = []
        checks = 0
        gc.collect()
        gc.disable()  # what the client has to do for ten thousand calls of its own is not the broker's time
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


async def parked_pulls(endpoints: str, topic: str, parked: int, settled: Callable[[], None]) -> None:
    """Parks pulls as :func:`parked_wake_ups` does, and calls ``settled`` on a thread of its own when they wait: the
    client goes on taking answers meanwhile.
    """
    async with calls(endpoints, _CONNECTIONS) as call:
        pulls = _ParkedPulls(call, topic, parked)
        await pulls.park_answered()
        await asyncio.to_thread(settled)
        await pulls.cancel()


class _ParkedPulls:
    """Pulls by number, each with the offset where it goes on."""

    def __init__(self, call: Call, topic: str, count: int) -> None:
        self._call = call
        self._topic = topic
        self._offsets = [0] * count
        self._waiting: dict[int, asyncio.Task[v1.PullColumnsResponse]] = {}
        self.others_answered = False
        """Whether a pull was answered that was not to be woken."""
        self._awaited: int | None = None

    async def park_answered(self) -> None:
        """Returns when every pull waits at the server."""
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
        """Milliseconds from a send to the answer of one pull, which then waits again."""
        self._awaited = number
        send = messaging.SendMessageRequest(messages=[message(self._topic, b"x", f"tag{number}")])
        begun = time.perf_counter()
        checked(await self._call(MESSAGING.methods["SendMessage"], send))
        response = checked(await self._waiting[number])
        took_ms = (time.perf_counter() - begun) * 1000
        self.others_answered |= response.queues[0].row_count == 0  # the check came first
        self._offsets[number] = response.queues[0].max_offset
        self._park(number)
        await self._have_come_in(number)
        return took_ms

    async def _have_come_in(self, connection: int) -> None:
        """Calls of a connection go their way in order: when one is answered, those before it have arrived."""
        bounds = v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=self._topic)])
        checked(await self._call(COLUMNS.methods["QueryBounds"], bounds, connection))

    async def cancel(self) -> None:
        """Takes all pulls back."""
        for task in self._waiting.values():
            task.cancel()
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)
