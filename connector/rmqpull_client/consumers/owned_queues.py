"""The queues that a consumer owns: what its user's thread reads, and its member's thread takes and drops."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import RLock

from rmqpull_client.consumers.core.positions import Positions
from rmqpull_client.consumers.core.rebalance import TopicShare, find_change
from rmqpull_client.consumers.group_offsets import GroupOffsets
from rmqpull_client.consumers.settings import LitePullSettings
from rmqpull_client.model import MessageFilter, MessageQueue

_logger = logging.getLogger(__name__)


class OwnedQueues:
    """See :class:`~rmqpull_client.consumers.member.Owner`. ``lock`` guards ``positions`` and ``filters``.

    ``starts`` finds where to start in a queue, with timeouts that suit the member's thread.
    """

    def __init__(self, group: str, settings: LitePullSettings, starts: GroupOffsets) -> None:
        self.positions = Positions()
        self.filters: Mapping[str, MessageFilter] = {}
        self.lock = RLock()
        self._group = group
        self._settings = settings
        self._starts = starts

    def get_filters(self) -> Mapping[str, MessageFilter]:
        """See the class."""
        return self.filters

    def take_shares(self, shares: Sequence[TopicShare]) -> None:
        """See the class."""
        change = find_change(self.positions.queues, shares, self.filters.keys())
        if not change:
            return
        with self.lock:
            self.positions.drop(change.dropped)
        starts = self._starts.find_starts(change.added)
        with self.lock:
            self.positions.add({queue: at for queue, at in starts.items() if queue.topic in self.filters})
        _logger.info(
            "Consumer group %s: %d queues dropped, %d taken", self._group, len(change.dropped), len(change.added)
        )
        changed = {queue.topic for queue in (*change.dropped, *change.added)}
        for share in shares:
            if share.topic in changed and share.mine is not None and self._settings.queue_listener is not None:
                try:
                    self._settings.queue_listener(share.topic, share.queues, share.mine)
                except Exception:
                    _logger.exception("Consumer group %s: the queue listener has failed", self._group)

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """See the class."""
        with self.lock:
            for queue, offset in offsets.items():
                if self.positions.move(queue, offset):
                    _logger.warning("Consumer group %s was reset to offset %d of queue %s", self._group, offset, queue)

    def doubt(self, broker_name: str) -> None:
        """See the class."""
        with self.lock:
            self.positions.doubt(broker_name)

    def lose_all(self) -> None:
        """See the class."""
        with self.lock:
            if not self.positions.queues:
                return
            self.positions.drop(self.positions.queues)
        _logger.warning(
            "Consumer group %s: brokers have accepted no heartbeat for two minutes. Either they were away, or this "
            "process was stopped or held Python's interpreter. The consumer has lost its queues, and joins again",
            self._group,
        )
