"""Pops on the event loop, for every protocol: long polling, acknowledgements and redelivery (rules 3.17)."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.popping.acks import acknowledge, change_invisible_time, is_in_flight
from rmqpull_broker.core.popping.order import find_block_end_ms
from rmqpull_broker.core.popping.pop import Outlook, look_ahead, pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage, Receipt
from rmqpull_broker.core.popping.request import PopRequest, PopResult
from rmqpull_broker.core.popping.waiting_pops import WaitingPops
from rmqpull_broker.core.pulling.parking import Arrivals
from rmqpull_broker.core.shares import ANYBODY, Holder
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import (
    ClockRead,
    ColumnsStored,
    Fact,
    OffsetsReset,
    PoppedInOrder,
    RowsStored,
    TopicDeleted,
    TopicPut,
)
from rmqpull_broker.core.state.queue_table import GroupQueue
from rmqpull_broker.core.state.stage_facts import Splice, StagesCommitted
from rmqpull_broker.server.clock import Clock, Timer
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import ENDED_IN_A_TURN
from rmqpull_broker.server.runtime.stats import Stats

RELEASED_AFTER_MS = 1_000
"""Redelivery delay for messages whose caller disconnected before it got them (rules 5.12)."""

ROWS_LOOKED_AT_MAX = 16_384
"""How many rows of a commit are looked at to find the pops to wake. A commit may have millions; the pops of the topics
with the others all wake, and look themselves."""

ENDS_EARLY_MS = 50
"""A waiting pop ends this long before its caller's time is over, as in 5.3.3, so that what it finds at the end still
reaches the caller."""

NOTHING = PopResult(0, 0, 0)

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class Pops:
    """Pops of all groups. All methods belong to the event loop.

    Arguments: the state; the way to change it; the clock; a function that draws a random number below its argument; the
    counters of deliveries and acknowledgements.
    """

    def __init__(
        self,
        state: BrokerState,
        group_commit: GroupCommit,
        clock: Clock,
        draw: Callable[[int], int] = random.randrange,
        metrics: Metrics | None = None,
        stats: Stats | None = None,
    ) -> None:
        self._state = state
        self._group_commit = group_commit
        self._clock = clock
        self.draw = draw
        """Returns a random number below its argument."""
        self._metrics = metrics or Metrics()
        self._stats = stats or Stats()
        self._waits = WaitingPops()
        self._futures: dict[int, tuple[PopRequest, asyncio.Future[None]]] = {}
        self._free_alarms: dict[GroupQueue, Timer] = {}
        self._releases: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def waiting_count(self) -> int:
        """How many pops wait for messages."""
        return len(self._waits)

    def count_waiting(self, topic: str, broker_name: str, group: str, queue_id: int) -> int:
        """Returns how many waiting pops of a group name this queue id; -1 counts those of all queues."""
        return self._waits.count(topic, broker_name, group, queue_id)

    # --- pops --------------------------------------------------------------------------------------------------------

    async def pop(
        self, request: PopRequest, poll_ms: int = 0, left_s: float = math.inf, holder: Holder = ANYBODY
    ) -> PopResult:
        """Pops messages, and waits up to ``poll_ms`` for the first one. Without a message in time, the result is empty.

        It waits for ``left_s`` seconds of real time at most, even if a manual clock stands still. Messages that were
        delivered to a caller that has left are redelivered after a second. Raises what ``pop_messages`` raises,
        BadRequest, TooManyRequests when too many pops of its group or of ``holder`` wait, and ServiceNotAvailable.
        """
        request.check()
        until_ms = self._clock.passing_ms() + poll_ms
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + left_s
        while True:
            outlook = look_ahead(self._state, request, self._clock.wall_ms())
            result = NOTHING
            if outlook.is_ready:
                result = await self._pop_once(request)
                if result.message_count:
                    self._count(request.group, result)
                    if result.rest_count:
                        self._wake_oldest(request)
                    return result
            if self._clock.passing_ms() >= until_ms or loop.time() >= ends_s or self._is_closed:
                return result
            if not outlook.is_ready:
                await self._wait(request, self._find_wake_ms(outlook, until_ms), ends_s, holder)

    def _count(self, group: str, result: PopResult) -> None:
        self._metrics.count_popped(group, result)
        for part in result.parts:
            broker_name, topic = part.queue.broker_name, part.queue.topic
            self._stats.count_pulled(broker_name, topic, group, len(part.offsets), self._clock.steady_ms())

    async def _pop_once(self, request: PopRequest) -> PopResult:
        now_ms = self._clock.wall_ms()
        command = partial(pop_messages, request=request, now_ms=now_ms, draw=self.draw)
        stored = asyncio.ensure_future(self._group_commit.execute(command))
        try:
            return await asyncio.shield(stored)
        except asyncio.CancelledError:
            stored.add_done_callback(lambda done: self._release_late(request, done))
            raise

    def _release_late(self, request: PopRequest, done: asyncio.Future[PopResult]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.release_all(request.group, done.result())

    def _find_wake_ms(self, outlook: Outlook, until_ms: int) -> int:
        if outlook.blocked_until_ms is None:
            return until_ms
        return min(until_ms, self._clock.passing_ms() + max(0, outlook.blocked_until_ms - self._clock.wall_ms()))

    async def _wait(self, request: PopRequest, until_ms: int, ends_s: float, holder: Holder) -> None:
        ticket = self._waits.add(request, holder)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._futures[ticket] = request, future
        timer = self._clock.call_at(until_ms, lambda: self._wake([ticket]))
        end = loop.call_at(ends_s, self._wake, [ticket]) if ends_s < math.inf else None
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._wake_oldest(request)  # pass the wake-up on to the next waiting pop
            raise
        finally:
            timer.cancel()
            if end is not None:
                end.cancel()
            self._waits.remove(ticket)
            del self._futures[ticket]

    def _wake_oldest(self, request: PopRequest) -> None:
        self._wake(self._take_oldest(request))

    def _take_oldest(self, request: PopRequest) -> list[int]:
        return self._waits.take_oldest(request.topic, request.broker_name, request.group, request.queue_id)

    def _wake(self, tickets: Iterable[int]) -> None:
        left = list(tickets)
        for ticket in left:
            request, future = self._futures[ticket]
            if future.cancelled():
                left += self._take_oldest(request)  # its caller has left: pass the wake-up on
            elif not future.done():
                future.set_result(None)

    def wake_for(self, facts: Iterable[Fact]) -> None:
        """Wakes the pops that can continue after these facts.

        Messages that were not acknowledged in time are stored in a retry topic, and wake no pop (rules 6.2).
        """
        if not len(self._waits):
            return
        for fact in facts:
            match fact:
                case RowsStored(queue, rows) if self._waits.has_pops_of(queue):
                    self._wake(self._waits.take_woken(queue, Arrivals(rows), len(rows)))
                case ColumnsStored(parts):
                    for queue, first, count in parts:
                        self._wake_columns(queue, first, count)
                case StagesCommitted(splices=splices):
                    self._wake_for_commit(splices)
                case OffsetsReset(group, offsets):
                    self._wake(self._waits.take_all_of({queue.topic for queue, _ in offsets}, group))
                case PoppedInOrder():
                    self._wake_when_free(fact)
                case ClockRead():
                    self.look_again()
                case TopicPut(topic):
                    self._wake(self._waits.take_all_of([topic.name]))
                case TopicDeleted(name):
                    self._wake(self._waits.take_all_of([name]))

    def look_again(self) -> None:
        """Wakes all pops, because the clock was set and ordered queues are free at other times. They wait again."""
        self._wake_in_turns(list(self._futures))

    def _wake_when_free(self, batch: PoppedInOrder) -> None:
        """Wakes a pop when an ordered batch no longer blocks its queue. Replaces the timer of an older batch."""
        key, now_ms = (batch.group, batch.queue), self._clock.wall_ms()
        if key in self._free_alarms:
            self._free_alarms.pop(key).cancel()
        end_ms = find_block_end_ms(batch, "", now_ms)
        if end_ms is None:
            self._wake_oldest_of(key)
        else:
            at_ms = self._clock.passing_ms() + end_ms - now_ms
            self._free_alarms[key] = self._clock.call_at(at_ms, partial(self._end_block, key))

    def _end_block(self, key: GroupQueue) -> None:
        del self._free_alarms[key]
        self._wake_oldest_of(key)

    def _wake_oldest_of(self, key: GroupQueue) -> None:
        group, queue = key
        self._wake(self._waits.take_oldest(queue.topic, queue.broker_name, group, queue.queue_id))

    def _wake_columns(self, queue: MessageQueue, first_offset: int, count: int) -> None:
        if not self._waits.has_pops_of(queue):
            return
        for batch in self._state.store.read(queue, first_offset, first_offset + count):
            self._wake(self._waits.take_woken(queue, Arrivals(batch=batch), batch.num_rows))
            if not self._waits.has_pops_of(queue):
                return

    def _wake_for_commit(self, splices: Iterable[Splice]) -> None:
        left = ROWS_LOOKED_AT_MAX
        for splice in splices:
            if splice.row_count > left:
                self._wake_in_turns(self._waits.take_all_of([splice.queue.topic]))
            elif self._waits.has_pops_of(splice.queue):
                self._wake_columns(splice.queue, splice.first_offset, splice.row_count)
                left -= splice.row_count

    # --- receipts ----------------------------------------------------------------------------------------------------

    async def acknowledge(self, messages: Sequence[DeliveredMessage]) -> list[bool]:
        """Acknowledges messages, all at once. Returns of each whether it was in flight. Raises ServiceNotAvailable."""
        ended = await self._execute_each(acknowledge, messages)
        for message, has_ended in zip(messages, ended, strict=True):
            if has_ended:
                self._metrics.acknowledged[message.group, message.queue.topic] += 1
        return ended

    def is_in_flight(self, message: DeliveredMessage) -> bool:
        """Whether a message is still in flight by the delivery that its receipt names."""
        return is_in_flight(Draft(self._state), message)

    async def change_invisible_times(self, messages: Sequence[DeliveredMessage], invisible_ms: int) -> list[Receipt]:
        """Makes messages visible again in ``invisible_ms``. Returns the new receipts. Raises ServiceNotAvailable."""
        change = partial(change_invisible_time, invisible_ms=invisible_ms, now_ms=self._clock.wall_ms())
        return await self._execute_each(change, messages)

    async def _execute_each(
        self, command: Callable[[Draft, DeliveredMessage], T], messages: Sequence[DeliveredMessage]
    ) -> list[T]:
        """Runs a command for each message. Each sees what those before it have changed: they may be of one batch."""

        def run(draft: Draft) -> list[T]:
            answers = list[T]()
            for message in messages:
                answers.append(command(draft, message))
                draft.end_command()
            return answers

        return await self._group_commit.execute(run)

    def release(self, messages: Sequence[DeliveredMessage]) -> None:
        """Makes messages visible again soon that their caller did not get."""
        if messages and not self._is_closed:
            task = asyncio.get_running_loop().create_task(self._release(messages))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)

    def release_all(self, group: str, result: PopResult) -> None:
        """Makes all messages of a pop visible again soon, because its caller has left."""
        self.release(list(_list_receipts(group, result)))

    async def _release(self, messages: Sequence[DeliveredMessage]) -> None:
        try:
            await self.change_invisible_times(messages, RELEASED_AFTER_MS)
        except BrokerError as error:
            _logger.warning(
                "%d messages that no client has got become visible again only after their invisible time: %s",
                len(messages),
                error,
            )

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends all waiting pops, and lets no more wait."""
        self._is_closed = True
        for alarm in self._free_alarms.values():
            alarm.cancel()
        self._free_alarms.clear()
        self._wake_in_turns(list(self._futures))

    def _wake_in_turns(self, tickets: list[int]) -> None:
        """Wakes waiting pops, some in each turn of the event loop: a hundred thousand at once would take a second."""
        for ticket in tickets[-ENDED_IN_A_TURN:]:
            if ticket in self._futures:
                _, future = self._futures[ticket]
                if not future.done():
                    future.set_result(None)
        del tickets[-ENDED_IN_A_TURN:]
        if tickets:
            asyncio.get_running_loop().call_soon(self._wake_in_turns, tickets)


def _list_receipts(group: str, result: PopResult) -> Iterator[DeliveredMessage]:
    for part in result.parts:
        for offset in part.offsets:
            yield DeliveredMessage(group, part.queue, result.make_receipt(part, offset, -1))
