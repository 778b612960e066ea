"""The consumer offsets of a group, as one of its members reads and sets them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import RLock

from rmqpull_client.consumers.core.positions import Positions
from rmqpull_client.consumers.settings import LitePullSettings
from rmqpull_client.errors import RmqpullError
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.consumer_groups import ConsumerGroups
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.offset_queries import BoundsQuery, find_offsets_at

_BEFORE_START_MS = 30 * 60_000


class GroupOffsets:
    """Reads and sets the consumer offsets of a group. ``lock`` guards positions that other threads change."""

    def __init__(self, channel: RemotingChannel, group: str, settings: LitePullSettings) -> None:
        self._channel = channel
        self._group = group
        self._settings = settings
        self._groups = ConsumerGroups(channel)
        self._made_ms = time.time_ns() // 1_000_000

    def get(self, queue: MessageQueue) -> int | None:
        """Returns the consumer offset of a queue, as its broker has it; None without one."""
        return self._groups.get_offsets(self._group, [queue])[queue]

    def find_starts(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Returns where to start: at the consumer offset, or where the settings say (rules 1.10)."""
        if not queues:
            return {}
        stored = self._groups.get_offsets(self._group, queues)
        starts = {queue: offset for queue, offset in stored.items() if offset is not None}
        new = [queue for queue in queues if queue not in starts]
        if not new:
            return starts
        if self._settings.consume_from_where == "CONSUME_FROM_TIMESTAMP":
            given = self._settings.consume_timestamp_ms
            at_ms = self._made_ms - _BEFORE_START_MS if given is None else given
            return starts | find_offsets_at(self._channel, dict.fromkeys(new, at_ms), self._group)
        is_first = self._settings.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
        bounds = BoundsQuery(self._channel).query_queues(new)
        return starts | {queue: own.min_offset if is_first else own.max_offset for queue, own in bounds.items()}

    def set(self, positions: Positions, lock: RLock, offsets: Mapping[MessageQueue, int]) -> None:
        """Sets consumer offsets broker by broker, and notes them. Returns when the brokers have them.

        Left out are queues that the member has lost, and those for which a former owner has set a later offset. Raises
        the first error once all brokers were asked.
        """
        errors = list[RmqpullError]()
        by_broker = defaultdict[str, dict[MessageQueue, int]](dict)
        for queue, offset in offsets.items():
            by_broker[queue.broker_name][queue] = offset
        for own in by_broker.values():
            try:
                self._set(positions, lock, own)
            except RmqpullError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _set(self, positions: Positions, lock: RLock, offsets: Mapping[MessageQueue, int]) -> None:
        with lock:
            first = positions.list_first_set(offsets)
        stored = self._groups.get_offsets(self._group, first) if first else {}
        ahead = {queue for queue, offset in stored.items() if offset is not None and offset > offsets[queue]}
        with lock:
            settable = positions.queues - ahead
        wanted = {queue: own for queue, own in offsets.items() if queue in settable}
        if wanted and (missing := self._groups.update_offsets(self._group, wanted)):
            self._groups.set_offsets(self._group, missing)  # at brokers that do not know the group yet
        with lock:
            positions.note_set(wanted)
