"""Counts messages sent and received in the last minute, hour and day, for VIEW_BROKER_STATS_DATA.

As in Apache's broker, the minute is counted in steps of 10 s, the hour in steps of 10 min, and the day in steps of an
hour. Belongs to the event loop.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import NamedTuple

from rmqpull_broker.core.state.facts import ColumnsStored, Fact, RowsStored
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.stage_facts import StagesCommitted

STATS_MAX = 10_000
"""The most stats, of topics and of groups on topics. Above this limit, the least recently changed one is forgotten."""

TOPIC_PUT_NUMS, GROUP_GET_NUMS = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
BROKER_PUT_NUMS, BROKER_GET_NUMS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
_SECONDS_MS, _MINUTES_MS, _HOURS_MS = 10_000, 600_000, 3_600_000


class Snapshot(NamedTuple):
    """A stat for one period: the number of messages, how many per second, and how many at a time."""

    sum: int
    tps: float
    avgpt: float


class _Period:
    """The last steps of a period. Old steps are dropped when a new one begins, or when the period is read."""

    def __init__(self, step_ms: int, step_count: int) -> None:
        self._step_ms, self._step_count = step_ms, step_count
        self._steps: deque[tuple[int, int, int]] = deque(maxlen=step_count)

    def add(self, count: int, now_ms: int) -> None:
        step = now_ms // self._step_ms
        if self._steps and self._steps[-1][0] == step:
            _, counted, times = self._steps[-1]
            self._steps[-1] = step, counted + count, times + 1
        else:
            self._steps.append((step, count, 1))

    def read(self, now_ms: int) -> Snapshot:
        first = now_ms // self._step_ms - self._step_count
        recent = [step for step in self._steps if step[0] > first]
        total, times = sum(step[1] for step in recent), sum(step[2] for step in recent)
        seconds = self._step_ms * self._step_count / 1000
        return Snapshot(total, total / seconds, total / times if times else 0.0)


class Stat:
    """One number of a broker, by minute, hour and day, and since the start."""

    def __init__(self) -> None:
        self.total = 0
        self.minute, self.hour = _Period(_SECONDS_MS, 6), _Period(_MINUTES_MS, 6)
        self.day = _Period(_HOURS_MS, 24)

    def add(self, count: int, now_ms: int) -> None:
        """Counts messages."""
        self.total += count
        for period in (self.minute, self.hour, self.day):
            period.add(count, now_ms)


class Stats:
    """The stats of all logical brokers, by broker name, name and key. ``begun_ms`` is the time of the start."""

    def __init__(self, begun_ms: int = 0) -> None:
        self.begun_ms = begun_ms
        self._stats: OrderedDict[tuple[str, str, str], Stat] = OrderedDict()

    def count_stored(self, facts: Iterable[Fact], now_ms: int) -> None:
        """Counts stored messages by topic. Staged messages count when they are committed and stored."""
        for fact in facts:
            if isinstance(fact, RowsStored):
                self._count_put(fact.queue.broker_name, fact.queue.topic, len(fact.rows), now_ms)
            elif isinstance(fact, ColumnsStored):
                for part in fact.parts:
                    self._count_put(part.queue.broker_name, part.queue.topic, part.row_count, now_ms)
            elif isinstance(fact, StagesCommitted):
                for splice in fact.splices:
                    self._count_put(splice.queue.broker_name, splice.queue.topic, splice.row_count, now_ms)

    def _count_put(self, broker_name: str, topic: str, count: int, now_ms: int) -> None:
        if not topic.startswith(STAGE_PREFIX):
            self._add(broker_name, TOPIC_PUT_NUMS, topic, count, now_ms)
            self._add(broker_name, BROKER_PUT_NUMS, "", count, now_ms)

    def count_pulled(self, broker_name: str, topic: str, group: str, count: int, now_ms: int) -> None:
        """Counts the messages that a pull has returned."""
        self._add(broker_name, GROUP_GET_NUMS, f"{topic}@{group}", count, now_ms)
        self._add(broker_name, BROKER_GET_NUMS, "", count, now_ms)

    def _add(self, broker_name: str, name: str, key: str, count: int, now_ms: int) -> None:
        place = broker_name, name, key
        stat = self._stats.get(place)
        if stat is None:
            stat = self._stats[place] = Stat()
            if len(self._stats) > STATS_MAX:
                self._stats.popitem(last=False)
        else:
            self._stats.move_to_end(place)
        stat.add(count, now_ms)

    def find(self, broker_name: str, name: str, key: str = "") -> Stat | None:
        """Returns a stat; None if nothing was counted yet."""
        return self._stats.get((broker_name, name, key))

    def count_per_second(self, broker_name: str, name: str, key: str, now_ms: int) -> float:
        """Returns how many messages per second there were in the last minute."""
        stat = self.find(broker_name, name, key)
        return 0.0 if stat is None else stat.minute.read(now_ms).tps
