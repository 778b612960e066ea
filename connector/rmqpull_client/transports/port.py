"""The port between RocketMQ's operations and the transports that perform them.

:class:`BrokerClient` is for everyone, :class:`Producer` for Spark's sink.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rmqpull_client.loss import Loss, OnLoss, refuse_loss
from rmqpull_client.model import (
    EVERYTHING,
    MessageFilter,
    MessageQueue,
    Part,
    QueueRange,
    RangeToCut,
    TopicBounds,
)
from rmqpull_client.transports.tools_port import ToolCalls
from rmqpull_client.witness import BYTES_MAX, Witness
from rmqpull_proto.names import TOOLS_GROUP

if TYPE_CHECKING:  # Spark imports this module, through planning, when it looks up data sources
    import pyarrow as pa

    from rmqpull_client.transports.property_rules import PropertyRules

NO_CREATION_IDS: Mapping[str, str] = MappingProxyType({})
_logger = logging.getLogger(__name__)


class QueueRows(NamedTuple):
    """Messages of one queue, in order, as batches of Arrow rows.

    They have the columns that :meth:`BrokerClient.read` was asked for.
    """

    queue: MessageQueue
    batches: Sequence[pa.RecordBatch]


class ClientAbilities(NamedTuple):
    """What a client can do with its server, beyond what each server allows. The texts are whole errors."""

    no_sizes: str | None
    """Why the client cannot cut ranges by bytes, and what to do instead. None: it can."""


class RangeCutter(Protocol):
    """Cuts ranges of queues by bytes."""

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """Returns the parts of each range, each as long as its limit permits.

        A message that is larger than the limit is a part of its own. Lost messages are in no part, so a range without
        messages has no parts. Raises OptionError if the server does not report sizes: see :class:`ClientAbilities`.
        """


class OffsetLookUp(Protocol):
    """Finds offsets at which a reader starts."""

    def find_offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Returns, for each queue, the offset of its first message stored at or after a time.

        Times are milliseconds since the epoch. If a queue has no such message, its max offset is returned.
        """

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Returns the group's consumer offset of each queue, or None for a queue without one."""


class BrokerClient(RangeCutter, OffsetLookUp, ToolCalls, Protocol):
    """A client of one broker or cluster. Threads may share it; a forked process must connect again.

    Each request ends within the connection's request timeout, retries included. A wait takes its own time in addition.
    All methods raise BrokerUnavailable if no server responds in time, HandshakeFailed if the TLS handshake fails,
    OptionError if a certificate or key file cannot be used, and RequestRefused if the server refuses the request.
    """

    @property
    def endpoints(self) -> str:
        """The endpoints of the connection, for messages to people."""

    @property
    def abilities(self) -> ClientAbilities:
        """What the server and the transport can do. A client asks its server at most once."""

    def find_offsets_at(
        self, timestamps_ms: Mapping[MessageQueue, int], group: str = TOOLS_GROUP
    ) -> dict[MessageQueue, int]:
        """See :class:`OffsetLookUp`. If messages must be pulled to find the offsets, the pulls name ``group``."""

    def query_bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
        """Returns the queues of each topic with their bounds. Topics that do not exist are left out.

        With ``query_id``, the result also counts the rows that were reported to :meth:`report_lost` under this id, if
        the server counts them.
        """

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        """Makes the server count lost rows under ``query_id``. A repeated report counts once.

        Does nothing if the server cannot count them.
        """

    def list_topics(self) -> list[str]:
        """Returns all topics except the broker's own. Raises OptionError if the server cannot list them."""

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        """Raises OptionError if the broker does not evaluate this filter. Nothing is read."""

    def wait_for_messages(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        timeout_ms: int,
        message_filter: MessageFilter = EVERYTHING,
    ) -> bool:
        """Waits until a queue has a message at or after its offset that the filter keeps, or for ``timeout_ms``.

        Returns False if there is none. Returns True if the bounds may have changed.
        """

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse_loss,
    ) -> Iterator[Sequence[QueueRows]]:
        """Reads all messages of the ranges that the filter keeps, a few thousand per step.

        The client pulls ahead within the limits of :class:`~rmqpull_client.flow.Flow`. Rows of one queue come in order;
        a slow queue does not delay the others. Closing the iterator stops the pulls.

        Args:
            group: The consumer group. Its consumer offsets are neither read nor set.
            ranges: The offsets to read, by queue.
            columns: Names of columns of ``rmqpull_client.PULLABLE_SCHEMA``. Empty: all of them but
                ``systemProperties``. A TAG filter adds the column ``tags``.
            creation_ids: The creation ids of topics, by name. A topic that was created again counts as lost. The
                standard protocol has no creation ids and ignores them.
            message_filter: The messages to keep.
            on_loss: Called for each :class:`~rmqpull_client.loss.Loss`. If it returns, the read continues after the
                lost messages. The default raises DataLoss.
        """

    def look_at(
        self, group: str, offsets: Mapping[MessageQueue, int], byte_max: int = BYTES_MAX
    ) -> dict[MessageQueue, Witness | None]:
        """Looks at one message of each queue, without a filter. No consumer offset is read or set.

        Returns its witness, or None if the master has no message at the offset. Some queues are left out, without an
        error, because callers can do without them: those whose broker does not answer within the request timeout,
        refuses, or answers as a slave, and those that remain once the messages have ``byte_max`` bytes. The total may
        exceed this limit by what was in flight.
        """

    @property
    def lost_connections(self) -> int | None:
        """A number that changes when a broker may have restarted with other data.

        It may change for other reasons too. None if the transport cannot tell.
        """

    def check_group(self, group: str, queues: Sequence[MessageQueue]) -> None:
        """Raises OptionError if the group has members whose consumer offsets this client would overwrite.

        Servers are not asked over gRPC: there, a client that pulls is a member like others.
        """

    def set_consumer_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Sets the group's consumer offsets. Returns the previous ones, as far as the server reports them.

        Over the standard protocol, the returned offsets may already be the new ones.
        """

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        """Sends one message per row and returns when all are stored.

        The batch has all or some columns of ``rmqpull_client.PUBLISH_SCHEMA``; ``body`` is required. Delivery is at
        least once: a retry may store the batch twice. Raises RequestRefused if the server lacks the columnar extension.
        """

    def close(self) -> None:
        """Closes this process's connection. A later call opens a new one."""


OnReset = Callable[[str, MessageQueue, int], None]
"""Called with a group, a queue and the new offset, when the broker has reset the group's consumer offset."""


def log_reset(group: str, queue: MessageQueue, offset: int) -> None:
    """Logs that the broker has reset a consumer offset. It reports a reset once, as the response to a pull.

    Readers continue at their own offsets, so transports log a reset and repeat the pull.
    """
    _logger.warning(
        "Consumer group %s was reset to offset %d of queue %s; the query continues at its own offset",
        group,
        offset,
        queue,
    )


TopicParts = Sequence[tuple[str, int]]
"""The topics of the rows of a batch, in order, each with its number of rows."""
SliceRows = Mapping[str, int]
"""For topics of a batch: the least rows that it puts into one queue, if nothing places them. The rows of other topics
are spread over all queues."""
SPREAD_EVENLY: SliceRows = MappingProxyType({})


class TransactionId(NamedTuple):
    """The id of a transaction: one micro-batch of a query, or one batch write, which has no ``batch_id``."""

    writer_id: str
    batch_id: int | None


class CommitRecord(NamedTuple):
    """Identifies the rows of a micro-batch, so that the broker can tell it from another one with the same number.

    See ``stages.proto``. An empty plan is unknown.
    """

    plan: bytes
    destination: str
    row_count: int
    digest: bytes


class CommitResponse(NamedTuple):
    """Whether the transaction was committed before, and whether the server has checked that it was the same one.

    ``missing_count`` is how many numbers before that of the transaction were never committed. ``is_refused`` says that
    nothing was committed because of them.
    """

    was_committed: bool
    was_compared: bool
    missing_count: int = 0
    is_refused: bool = False


class ProducerAbilities(NamedTuple):
    """What a producer can do. The sink delivers accordingly, and refuses options that need more.

    The texts become parts of errors: ``server`` names the server that lacks something, and ``no_columns`` and
    ``no_stages`` say why. ``create_topic`` and ``allow_writes`` are commands for ``{topic}``.
    """

    server: str
    no_columns: str | None
    """Why the producer cannot send in columns; the server then chooses the queues. None: it can."""
    no_stages: str | None
    """Why the server cannot commit many rows together. None: it can."""
    create_topic: str
    allow_writes: str
    compress_types: frozenset[str]
    property_rules: PropertyRules
    """Which properties of a message the server cannot carry."""
    topics_per_call_max: int = 1
    """The most topics of one call in columns."""
    tells_commit_gaps: bool = False
    """Whether commits count the missing numbers of a query's transactions, and can be refused because of them."""
    takes_priorities: bool = True
    """Whether rows may have a priority."""
    keeps_order: bool = False
    """Whether calls that are in flight at the same time keep the order of their rows, even when some are refused."""
    takes_slice_rows: bool = False
    """Whether a call may say how many rows it puts into one queue at least. Otherwise the producer or the server
    decides, and ``slice_rows`` and ``count_queues`` are not used."""


class Producer(Protocol):
    """What Spark's sink needs from a server, whatever the transport. It is not public API.

    Every call raises BrokerUnavailable if no server responds in time, and RequestRefused.
    """

    @property
    def abilities(self) -> ProducerAbilities:
        """What the server and the transport can do. A server is asked once."""

    def query_message_types(self, topic: str) -> frozenset[str]:
        """Returns the message types that a topic accepts: NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY."""

    def count_queues(self, topic: str) -> int:
        """Returns the number of queues of a topic that producers see."""

    def start_publish(
        self, parts: TopicParts, rows: pa.RecordBatch, by_keys: bool, slice_rows: SliceRows = SPREAD_EVENLY
    ) -> Callable[[], Any]:
        """Sends a batch in columns. The returned function waits until the broker has stored it.

        It raises RowsRefused if the broker has refused some rows and stored the others. After any other RequestRefused
        no row was stored.
        """

    def start_stage(
        self,
        transaction: TransactionId,
        stage_id: str,
        sequence: int,
        parts: TopicParts,
        rows: pa.RecordBatch,
        by_keys: bool,
        timeout_ms: int,
        slice_rows: SliceRows = SPREAD_EVENLY,
    ) -> Callable[[], Any]:
        """Stages a batch as call number ``sequence`` of a stage. The returned function waits for the response.

        The response says whether the transaction was committed before. The server drops the stage after ``timeout_ms``
        without a further call.
        """

    def keep_stages(self, transaction: TransactionId, timeout_ms: int) -> None:
        """Restarts the timeout of the stages of a transaction."""

    def commit_stages(
        self,
        transaction: TransactionId,
        staged: Sequence[tuple[str, int]],
        patience_ms: int = 0,
        record: CommitRecord | None = None,
        row_count: int | None = None,
        refuse_gap: bool = False,
    ) -> CommitResponse:
        """Commits stages, each with its number of calls, and returns when all rows are readable.

        ``row_count`` is the number of rows that the tasks have staged; a server that has another number refuses. With
        ``refuse_gap`` nothing is committed if numbers before that of the transaction are missing.

        If the transaction was committed before, perhaps by a call whose response was lost, the server compares it with
        ``record``. A large commit takes longer than one request may, and a server whose disk is full finishes it later.
        So the call is repeated for ``patience_ms`` while the server responds to other requests.

        Raises BrokerUnavailable if it is not known whether the rows were committed. Raises RequestRefused if they were
        not: TransactionTaken if another transaction was committed under this id.
        """

    def drop_stages(self, transaction: TransactionId) -> None:
        """Deletes the stages of a transaction."""

    def start_send(self, topic: str, row: dict[str, Any]) -> Callable[[], Any]:
        """Sends one message with the standard protocol. ``row`` has columns of the publish schema.

        The returned function waits for the response.
        """
