"""A fake broker for the driver's side, made of a few dictionaries, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pyspark_rmqpull.clock import Clock
from rmqpull_client.errors import OptionError, RmqpullError
from rmqpull_client.loss import Loss, OnLoss, refuse_loss
from rmqpull_client.model import (
    EVERYTHING,
    Bounds,
    GroupProgress,
    MessageFilter,
    MessageQueue,
    Part,
    QueueRange,
    RangeToCut,
    ResetTarget,
    TopicBounds,
)
from rmqpull_client.transports.port import NO_CREATION_IDS, ClientAbilities, QueueRows
from rmqpull_client.transports.tools_port import BrokerReset, IndexedMessages
from rmqpull_client.witness import BYTES_MAX, Witness
from rmqpull_proto.names import TOOLS_GROUP


class FakeCutter:
    """Cuts ranges like a broker with messages of these sizes. The first is at offset 0, or as ``begins`` says."""

    def __init__(
        self, sizes: Mapping[MessageQueue, Sequence[int]], begins: Mapping[MessageQueue, int] | None = None
    ) -> None:
        self._sizes = sizes
        self._begins = begins or {}
        self.calls: list[list[RangeToCut]] = []

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        self.calls.append(list(wanted))
        return [self._parts(entry)[: entry.parts_max or None] for entry in wanted]

    def _parts(self, entry: RangeToCut) -> list[Part]:
        first = self._begins.get(entry.queue, 0)
        sizes = self._sizes.get(entry.queue, ())
        parts: list[Part] = []
        at = begin = max(entry.from_offset, first)
        until = min(entry.until_offset, first + len(sizes))
        for offset in range(at, until):
            if sum(sizes[begin - first : offset + 1 - first]) > entry.byte_max and offset > begin:
                parts.append(Part(offset, sum(sizes[begin - first : offset - first])))
                begin = offset
        return parts if begin >= until else [*parts, Part(until, sum(sizes[begin - first : until - first]))]


@dataclass
class FakeBrokerClient:
    """A broker with topic "orders": ``queues`` has its bounds by queue id, ``calls`` all requests in their order."""

    queues: dict[int, Bounds]
    creation_id: str | None = "first"
    other_topics: dict[str, TopicBounds] = field(default_factory=dict)
    names: list[str] = field(default_factory=lambda: ["orders"])
    endpoints: str = "127.0.0.1:8081"
    lost: list[tuple[str, MessageQueue, int, int]] = field(default_factory=list)
    refused_expression: str = ""
    has_members: bool = False
    sizes: dict[MessageQueue, Sequence[int]] = field(default_factory=dict)
    no_sizes: str | None = None
    cannot_cut: RmqpullError | None = None
    on_wait: Callable[[], None] = lambda: None
    waited: list[dict[int, int]] = field(default_factory=list)
    waited_ms: list[int] = field(default_factory=list)
    checked: list[tuple[int, int]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    messages: dict[tuple[int, int], Witness | None] = field(default_factory=dict)
    """What a look sees, by queue id and offset. Nobody answers for other messages."""
    looked: list[dict[int, int]] = field(default_factory=list)
    lost_connections: int | None = 0
    offsets_set: list[dict[int, int]] = field(default_factory=list)
    group_offsets: dict[int, int] = field(default_factory=dict)

    @property
    def abilities(self) -> ClientAbilities:
        self.calls.append("abilities")
        return ClientAbilities(self.no_sizes)

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        self.lost += [(query_id, *loss[:3]) for loss in losses]

    def query_bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
        self.calls.append("bounds")
        queues = {MessageQueue("orders", "a", queue_id): bounds for queue_id, bounds in self.queues.items()}
        existing = {"orders": TopicBounds(self.creation_id, queues, {}), **self.other_topics}
        return {name: existing[name] for name in topics if name in existing}

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        self.calls.append("cut")
        if self.cannot_cut is not None:
            raise self.cannot_cut
        begins = {MessageQueue("orders", "a", queue_id): bounds.min_offset for queue_id, bounds in self.queues.items()}
        return FakeCutter(self.sizes, begins).cut_ranges(wanted)

    def list_topics(self) -> list[str]:
        self.calls.append("topics")
        return self.names

    def list_groups(self) -> list[str]:
        self.calls.append("groups")
        return []

    def query_progress(self, groups: Sequence[str]) -> list[GroupProgress]:
        self.calls.append("progress")
        return []

    def query_messages(
        self, queues: Sequence[MessageQueue], key: str | None, msg_id: str | None, begin_ms: int = 0
    ) -> IndexedMessages:
        raise NotImplementedError

    def prepare_reset(self, group: str, queues: Sequence[MessageQueue], target: ResetTarget) -> BrokerReset | None:
        raise NotImplementedError

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        self.calls.append("check filter")
        self.checked.append((queue.queue_id, offset))
        if message_filter.expression == self.refused_expression:
            raise OptionError("Option filterExpression is refused.")

    def wait_for_messages(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        timeout_ms: int,
        message_filter: MessageFilter = EVERYTHING,
    ) -> bool:
        self.calls.append("wait")
        self.waited.append({queue.queue_id: offset for queue, offset in offsets.items()})
        self.waited_ms.append(timeout_ms)
        before = dict(self.queues)
        self.on_wait()
        return self.queues != before

    def look_at(
        self, group: str, offsets: Mapping[MessageQueue, int], byte_max: int = BYTES_MAX
    ) -> dict[MessageQueue, Witness | None]:
        """As if nobody answered, unless the test says what is there."""
        self.looked.append({queue.queue_id: offset for queue, offset in offsets.items()})
        return {
            queue: self.messages[queue.queue_id, at]
            for queue, at in offsets.items()
            if (queue.queue_id, at) in self.messages
        }

    def check_group(self, group: str, queues: Sequence[MessageQueue]) -> None:
        if self.has_members:
            raise OptionError(f"Consumer group {group} has members.")

    def set_consumer_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        self.calls.append("set offsets")
        self.offsets_set.append({queue.queue_id: offset for queue, offset in offsets.items()})
        return {}

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse_loss,
    ) -> Iterator[Sequence[QueueRows]]:
        raise NotImplementedError

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        self.calls.append("get offsets")
        return {queue: self.group_offsets.get(queue.queue_id) for queue in queues}

    def find_offsets_at(
        self, timestamps_ms: Mapping[MessageQueue, int], group: str = TOOLS_GROUP
    ) -> dict[MessageQueue, int]:
        """The store time of each message, in milliseconds, is its offset."""
        if timestamps_ms:
            self.calls.append(f"find offsets as {group}")
        limits = {queue: self.queues[queue.queue_id] for queue in timestamps_ms}
        return {
            queue: min(max(at, limits[queue].min_offset), limits[queue].max_offset)
            for queue, at in timestamps_ms.items()
        }

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class ManualClock(Clock):
    """A clock that moves when the code sleeps. Each sleep calls ``on_sleep``."""

    def __init__(self) -> None:
        self.passed_ms = 0
        self.slept_ms: list[int] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return self.passed_ms

    def sleep(self, duration_ms: int) -> None:
        self.slept_ms.append(duration_ms)
        self.passed_ms += duration_ms
        self.on_sleep()
