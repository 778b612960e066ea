"""The backlog of a streaming query: where its next batch starts, and where its queues end."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.errors import TopicMissing
from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.offsets import QueueOffsets, find_resume_offsets
from pyspark_rmqpull.planning.partitions import keep_allocated
from pyspark_rmqpull.planning.topics import list_creation_ids, list_queues
from pyspark_rmqpull.reading.history import History
from pyspark_rmqpull.reading.partition_reader import LossReport
from pyspark_rmqpull.reading.topics import find_topics
from rmqpull_client.loss import refuse_loss
from rmqpull_client.model import MessageQueue, TopicBounds
from rmqpull_client.offsets.stores import make_offset_look_up
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.transports.reached import expect_queues

TOPIC_RETRY_INTERVAL_MS = 500
"""How often a query looks for a topic that does not exist yet."""

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backlog:
    """What a query can read, as one look at the broker found it."""

    finished: QueueOffsets
    """The end of the last finished batch."""
    start: QueueOffsets
    """The start of the next batch. Its ``starts`` name the queues that are new, or that a loss has moved."""
    ends: Mapping[MessageQueue, int]
    """The max offset of each queue that exists and that some task reads."""
    rows_lost: Mapping[MessageQueue, int] | None
    """The rows that the query has reported lost, as the broker counts them. None if it does not count them."""

    @property
    def next_offsets(self) -> dict[MessageQueue, int]:
        """The next offset to read of each queue that exists."""
        return {queue: self.start.offsets[queue] for queue in self.ends}

    @property
    def finished_offsets(self) -> dict[MessageQueue, int]:
        """What a consumer group has finished: without deleted queues, which would make the broker refuse them all."""
        return {queue: offset for queue, offset in self.next_offsets.items() if queue in self.finished.offsets}

    @property
    def is_empty(self) -> bool:
        """Whether a batch would have no message to read and no start to record."""
        return not self.start.starts and all(end <= self.start.offsets[queue] for queue, end in self.ends.items())

    @property
    def has_loss(self) -> bool:
        """Whether a loss has moved the start of some queue, which the next batch records."""
        return not self.start.starts.keys().isdisjoint(self.finished.offsets)


class TopicWatch:
    """Looks at the topics of one query, repeatedly."""

    def __init__(
        self, options: SourceOptions, client: Callable[[], BrokerClient], clock: Clock, history: History
    ) -> None:
        self._options = options
        self._history = history
        self._client = client
        self._clock = clock
        self._is_first_look = True
        self._ends_seen: Mapping[MessageQueue, int] = {}
        self._unread: Set[MessageQueue] = frozenset()
        self._losses: LossReport | None = None

    def look(self, finished: QueueOffsets) -> Backlog:
        """Asks the broker for the backlog that follows ``finished``.

        Raises DataLoss when the query cannot continue from there, OptionError for a topic or a starting offset that
        does not exist, and BrokerUnavailable.
        """
        if self._is_first_look:
            covers = self._options.selection.covers
            expect_queues(self._options.connection, filter(covers, finished.offsets))
        named = self._add_query_id(finished)
        topics = self._find_topics(named)
        start = self._find_start(named, topics)
        ends = {queue: bounds.max_offset for queue, bounds in list_queues(topics).items()}
        self._ends_seen = {**self._ends_seen, **ends}
        self._is_first_look = False
        return Backlog(finished, start, ends, _add_losses(topics))

    def _add_query_id(self, finished: QueueOffsets) -> QueueOffsets:
        """Adds the id under which the query reports losses, or removes it if a loss ends the query."""
        if self._options.fail_on_data_loss:
            return replace(finished, query_id=None)
        if self._losses is None:
            self._losses = LossReport(self._client, finished.query_id or uuid.uuid4().hex)
        return replace(finished, query_id=self._losses.query_id)

    def _find_topics(self, finished: QueueOffsets) -> dict[str, TopicBounds]:
        """The topics with those queues that some task reads. A warning names the others, once."""
        options, offsets = self._options, finished.offsets
        topics = wait_for_topic(
            lambda: find_topics(self._client(), options.selection, offsets.keys(), finished.query_id),
            options.wait_for_topic,
            self._clock,
        )
        read = keep_allocated(topics, offsets, options.allocation)
        unread = list_queues(topics).keys() - list_queues(read).keys()
        if not unread <= self._unread:
            names = ", ".join(map(str, sorted(unread)))
            _logger.warning("No task reads %s: allocateStrategy %s leaves them out", names, options.allocate_strategy)
        self._unread = unread
        return read

    def _find_start(self, finished: QueueOffsets, topics: Mapping[str, TopicBounds]) -> QueueOffsets:
        """The finished offsets, and a start for each queue that these do not name or cannot continue."""
        options, bounds = self._options, list_queues(topics)
        on_loss = refuse_loss if self._losses is None else self._losses.report
        if finished.is_initial and self._is_first_look:
            look_up = make_offset_look_up(options.group, self._client(), options.pull_group)
            now_ms = int(time.time() * 1000)
            starts = options.make_start_rules(Mode.STREAM).resolve(bounds, look_up, now_ms, on_loss)
        else:
            known = self._drop_unselected(finished)
            history = self._history.compare(known, bounds, self._ends_seen)
            starts = find_resume_offsets(known, topics, self._ends_seen, on_loss, history)
            starts |= {queue: bounds[queue].min_offset for queue in bounds if queue not in finished.offsets}
        # Known ids stay: a server without ids may replace the broker for a while, and the query must not forget them.
        ids = {**finished.creation_ids, **list_creation_ids(topics)}
        return QueueOffsets({**finished.offsets, **starts}, starts, ids, finished.query_id, finished.witnesses)

    def _drop_unselected(self, finished: QueueOffsets) -> QueueOffsets:
        """Drops queues that changed options leave out. They keep their offsets in the checkpoint."""
        covers = self._options.selection.covers
        return replace(finished, offsets={queue: at for queue, at in finished.offsets.items() if covers(queue)})


def _add_losses(topics: Mapping[str, TopicBounds]) -> dict[MessageQueue, int] | None:
    found = [topic.rows_lost for topic in topics.values() if topic.rows_lost is not None]
    if len(found) < len(topics):
        return None
    return {queue: lost for of_topic in found for queue, lost in of_topic.items()}


def wait_for_topic(look: Callable[[], _T], wait_ms: int, clock: Clock) -> _T:
    """Calls ``look`` until it no longer misses a topic or a queue, and returns its result: option ``waitForTopic``.

    Raises TopicMissing after ``wait_ms``, and at once whatever else ``look`` raises.
    """
    deadline_ms = clock.now_ms() + wait_ms
    is_logged = False
    while True:
        try:
            return look()
        except TopicMissing as missing:
            left_ms = deadline_ms - clock.now_ms()
            if left_ms <= 0:
                waited = f" The query waited {wait_ms} ms for it (option waitForTopic)." if wait_ms else ""
                raise TopicMissing(f"{missing}{waited}") from None
            if not is_logged:
                _logger.info("Waiting for at most %d ms: %s", wait_ms, missing)
                is_logged = True
        clock.sleep(min(TOPIC_RETRY_INTERVAL_MS, left_ms))
