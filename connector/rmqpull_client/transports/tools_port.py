"""The part of the port that only tools need: consumer groups and their resets, and single messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rmqpull_client.model import GroupProgress, MessageQueue, ResetTarget

if TYPE_CHECKING:
    import pyarrow as pa


class IndexedMessages(NamedTuple):
    """Messages that brokers have found in their index of keys and ids: the rows of each queue, in order.

    ``may_lack_older``: a broker has found as many as it names at once, which are the newest. It may have older ones.
    """

    rows: Mapping[MessageQueue, pa.RecordBatch]
    may_lack_older: bool


class BrokerReset(NamedTuple):
    """A reset of a group with members that brokers can do.

    ``is_stored`` says whether the brokers set the consumer offsets. Otherwise they only tell the members, and those
    that are Java's push consumers set them. ``run`` does the reset, and returns the new offsets by queue. It raises
    RequestRefused, also when some brokers have reset the group and another has refused.
    """

    members: Sequence[str]
    is_stored: bool
    run: Callable[[], dict[MessageQueue, int]]


class ToolCalls(Protocol):
    """What tools ask a broker or a cluster. Methods raise what those of ``BrokerClient`` raise."""

    def list_groups(self) -> list[str]:
        """Returns all consumer groups except the broker's own. Raises OptionError if the server cannot list them."""

    def query_progress(self, groups: Sequence[str]) -> list[GroupProgress]:
        """Returns how far groups are in each queue of the topics that they consume, sorted; nothing for unknown groups.

        Raises OptionError if the server does not tell what a group consumes: see
        :meth:`~rmqpull_client.transports.port.OffsetLookUp.get_consumer_offsets`.
        """

    def query_messages(
        self, queues: Sequence[MessageQueue], key: str | None, msg_id: str | None, begin_ms: int = 0
    ) -> IndexedMessages:
        """Looks up messages of queues of one topic in the index of their brokers. The rows have all columns.

        Messages that a broker has not indexed are not found.

        Args:
            queues: The queues of the messages, at least one.
            key: Only messages with this key. It or ``msg_id`` is required.
            msg_id: Only messages with this id: that of the client, or that of the broker, which has its address.
            begin_ms: Only messages that were stored at this time or later, in milliseconds since the epoch.

        Raises Unserved if the server keeps no index, or if no broker has the address in the id: read the queues then.
        """

    def prepare_reset(self, group: str, queues: Sequence[MessageQueue], target: ResetTarget) -> BrokerReset | None:
        """Returns how brokers reset a group with members. Nothing is changed before :attr:`BrokerReset.run`.

        ``queues`` are all that the target names. Returns None if the group has no members, as far as the server tells:
        then :meth:`~rmqpull_client.transports.port.BrokerClient.set_consumer_offsets` resets it. Raises OptionError if
        a broker cannot reset members in this way.
        """
