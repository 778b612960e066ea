"""The client for clusters of RocketMQ, by its remoting protocol."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError
from rmqpull_client.flow import DEFAULT_FLOW, Flow
from rmqpull_client.loss import Loss, OnLoss, refuse_loss
from rmqpull_client.model import (
    EVERYTHING,
    GroupProgress,
    MessageFilter,
    MessageQueue,
    Part,
    QueueRange,
    RangeToCut,
    ResetTarget,
    TopicBounds,
)
from rmqpull_client.transports.lost import LOST
from rmqpull_client.transports.port import NO_CREATION_IDS, ClientAbilities, QueueRows
from rmqpull_client.transports.remoting import consumer_groups, offset_queries
from rmqpull_client.transports.remoting.broker_resets import BrokerResets
from rmqpull_client.transports.remoting.group_listings import GroupListings
from rmqpull_client.transports.remoting.network.channel import RemotingChannel, get_remoting_channel
from rmqpull_client.transports.remoting.reading.waiting import ParkedPulls
from rmqpull_client.transports.tools_port import BrokerReset, IndexedMessages
from rmqpull_client.witness import BYTES_MAX, Witness
from rmqpull_proto.names import TOOLS_GROUP

if TYPE_CHECKING:
    import pyarrow as pa

PRODUCER_GROUP = "rmqpull-client"
"""The producer group of published messages."""


class RemotingClient:
    """See :class:`rmqpull_client.transports.port.BrokerClient`.

    A method that handles messages imports Arrow, and what needs it, when it is called: the import takes longer than the
    calls of a program that only asks for offsets.
    """

    def __init__(self, channel: RemotingChannel, flow: Flow = DEFAULT_FLOW) -> None:
        self._channel = channel
        self._flow = flow
        self._bounds = offset_queries.BoundsQuery(channel)
        self._groups = consumer_groups.ConsumerGroups(channel)
        self._parked = ParkedPulls(channel, flow)

    @property
    def endpoints(self) -> str:
        """The name servers of the connection."""
        return self._channel.endpoints

    @property
    def abilities(self) -> ClientAbilities:
        """What the remoting protocol can do: it does not report message sizes. No server is asked."""
        return ClientAbilities(
            no_sizes=f"The cluster at {self.endpoints} does not report the sizes of messages, as options "
            "maxBytesPerTrigger and maxBytesPerPartition require: the remoting protocol has no such request. Limit the "
            "number of messages instead, with maxOffsetsPerTrigger and maxRecordsPerPartition."
        )

    def query_bounds(self, topics: Sequence[str], query_id: str | None = None) -> dict[str, TopicBounds]:
        """Queries the routes of all topics, and then the min and the max offset of each queue, all at the same time."""
        return self._bounds.query(topics)

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """Raises OptionError: see :attr:`abilities`."""
        raise OptionError(self.abilities.no_sizes)

    def report_lost(self, query_id: str, losses: Sequence[Loss]) -> None:
        """Does nothing: the remoting protocol has no such call."""

    def list_topics(self) -> list[str]:
        """Lists the topics that the name servers know."""
        return self._channel.listings.list_topics()

    def list_groups(self) -> list[str]:
        """Asks all brokers for their groups."""
        return GroupListings(self._channel).list_groups()

    def query_progress(self, groups: Sequence[str]) -> list[GroupProgress]:
        """Asks all brokers for all groups. They tell only of queues that have a consumer offset."""
        return GroupListings(self._channel).query_progress(groups)

    def check_filter(self, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter) -> None:
        """Has the broker compile the expression, and pulls one message."""
        from rmqpull_client.transports.remoting.filters import check_filter

        check_filter(self._channel, group, queue, offset, message_filter)

    def wait_for_messages(
        self,
        group: str,
        offsets: Mapping[MessageQueue, int],
        timeout_ms: int,
        message_filter: MessageFilter = EVERYTHING,
    ) -> bool:
        """Parks one pull per queue until the first response. Pulls that stay parked serve the next wait."""
        return self._parked.wait(group, offsets, timeout_ms, message_filter)

    def read(
        self,
        group: str,
        ranges: Sequence[QueueRange],
        columns: Sequence[str],
        creation_ids: Mapping[str, str] = NO_CREATION_IDS,
        message_filter: MessageFilter = EVERYTHING,
        on_loss: OnLoss = refuse_loss,
    ) -> Iterator[Sequence[QueueRows]]:
        """Pulls many spans of each queue at once."""
        from rmqpull_client.transports.remoting.reading.read import Read

        return Read(self._channel, self._flow, group, columns, message_filter, on_loss).read(ranges)

    def look_at(
        self, group: str, offsets: Mapping[MessageQueue, int], byte_max: int = BYTES_MAX
    ) -> dict[MessageQueue, Witness | None]:
        """Pulls one message of each queue from its master, many at the same time."""
        from rmqpull_client.transports.remoting.reading.looking import look_at

        return look_at(self._channel, group, offsets, byte_max)

    def query_messages(
        self, queues: Sequence[MessageQueue], key: str | None, msg_id: str | None, begin_ms: int = 0
    ) -> IndexedMessages:
        """Asks all brokers of the queues, each once. Proxies have no such request."""
        from rmqpull_client.transports.remoting.index_queries import IndexQueries

        return IndexQueries(self._channel).query(queues, key, msg_id, begin_ms)

    @property
    def lost_connections(self) -> int:
        """Counts the connections that the process has lost."""
        return LOST.count

    def check_group(self, group: str, queues: Sequence[MessageQueue]) -> None:
        """Asks each broker for the members of the group."""
        self._groups.refuse_members(group, queues)

    def set_consumer_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Reads the previous offsets, and then sets the new ones with one request per queue."""
        return self._groups.set_offsets(group, offsets)

    def prepare_reset(self, group: str, queues: Sequence[MessageQueue], target: ResetTarget) -> BrokerReset | None:
        """Asks the brokers for members, and for how they reset them. Proxies do not."""
        return BrokerResets(self._channel, self._groups).prepare(group, queues, target)

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Gets the offsets with one request per queue."""
        return self._groups.get_offsets(group, queues)

    def find_offsets_at(
        self, timestamps_ms: Mapping[MessageQueue, int], group: str = TOOLS_GROUP
    ) -> dict[MessageQueue, int]:
        """Finds the offsets with one request per queue, and corrects those of brokers before 5.0."""
        return offset_queries.find_offsets_at(self._channel, timestamps_ms, group)

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        """Sends the rows in requests of many messages, to all queues in turn or to those that rows name."""
        from rmqpull_client.transports.remoting.sending.producer import RemotingProducer

        RemotingProducer(self._channel, PRODUCER_GROUP).start_publish([(topic, batch.num_rows)], batch, False)()

    def close(self) -> None:
        """Closes this process's idle connections."""
        self._parked.close()
        self._channel.close()


_clients: dict[tuple[int, Connection, Flow], RemotingClient] = {}


def get_remoting_client(connection: Connection, flow: Flow) -> RemotingClient:
    """Returns this process's client, which keeps its parked pulls and what it knows of groups between calls."""
    key = (os.getpid(), connection, flow)
    if key not in _clients:
        _clients.setdefault(key, RemotingClient(get_remoting_channel(connection), flow))
    return _clients[key]
