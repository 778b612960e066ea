"""What the connector asks of a broker, whatever the transport."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rmqpull_client.cutting import Part, RangeToCut
from rmqpull_client.filters import EVERYTHING, MessageFilter
from rmqpull_client.loss import Loss, OnLoss, refuse
from rmqpull_client.model import MessageQueue, QueueRange, TopicBounds

if TYPE_CHECKING:  # planning imports the port, and Spark's look-up of a data source planning
    import pyarrow as pa

NO_CREATION_IDS: Mapping[str, str] = MappingProxyType({})


class QueueRows(NamedTuple):
    """Rows of one queue, in order, as batches of (a selection of) ``rmqpull_proto.columns.PULLABLE_SCHEMA``."""

    queue: MessageQueue
    batches: Sequence[pa.RecordBatch]


class BrokerClient(Protocol):
    """Every request ends within the request timeout, retries included; a wait takes its own time on top.

    All of them raise BrokerUnavailable when nobody answers in time, HandshakeFailed when TLS cannot be agreed on,
    OptionError for a file that a connection needs, and RequestRefused for a status other than OK.
    """

    @property
    def endpoints(self) -> str:
        """Where the broker is."""

    def bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
        """The queues of each topic with their bounds; topics that do not exist are left out.

        With ``query_id`` also the rows that this query has reported lost, where the server counts them.
        """

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """The parts of each range, as long as they may be; a message above the limit is a part of its own.

        Messages that are not there are in no part. Raises OptionError at a server that does not tell sizes, also when
        nothing is wanted.
        """

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        """Has the server count lost rows, a repeated report once. Does nothing where it cannot."""

    def topic_names(self) -> list[str]:
        """All topics that are not the broker's own. Raises OptionError at a server that cannot list them."""

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        """Asks the broker for nothing but whether it evaluates this filter. Raises OptionError when it refuses."""

    def wait_for_messages(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        timeout_ms: int,
        message_filter: MessageFilter = EVERYTHING,
    ) -> bool:
        """Returns when some queue has a wanted message at or after its offset, or after ``timeout_ms``.

        False says that nothing came; True that a look at the bounds is worth while.
        """

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse,
    ) -> Iterator[Sequence[QueueRows]]:
        """All wanted messages of the ranges, a few thousand at a time, pulled ahead within the limits of ``Flow``.

        Queues come as they answer, and one that is slow holds up no other. Pulls end when the iterator is closed.
        ``creation_ids`` says which topics are meant, by name; the standard protocol cannot tell them apart.
        Rows of one queue come in order; a filter by tags brings the column ``tags`` along. ``on_loss``
        hears of messages that are not there any more; when it returns, the range goes on behind them.
        """

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Sets the group's consumer offsets, and returns those that the broker had before, as far as it tells them.

        Over the standard protocol these may already be the new ones.
        """

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's consumer offsets; None where the broker has none."""

    def offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first offset of each queue that was stored then (ms since the epoch) or later; its end without one."""

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        """Sends one message per row of (a selection of) ``PUBLISH_SCHEMA``; returns when all are kept.

        A retried call may store a batch twice, as any at-least-once producer. Raises RequestRefused at a server
        without the columnar extension.
        """

    def close(self) -> None:
        """Lets the connection of this process go; a later call makes a new one."""
