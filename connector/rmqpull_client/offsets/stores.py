"""Chooses where a group's consumer offsets are stored: on the broker, or in a local file (rules 1.11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.local_file import LocalFileOffsetStore
from rmqpull_client.transports.port import BrokerClient, OffsetLookUp

CLUSTERING, BROADCASTING = "CLUSTERING", "BROADCASTING"
"""RocketMQ's message models: consumer offsets on the broker, or in a local file."""
LOCAL_OFFSET_STORE_DIR = "~/.rocketmq_offsets"
"""The default directory of RocketMQ's clients (rules 1.11)."""


@dataclass(frozen=True)
class ConsumerGroup:
    """A consumer group and where its offsets are stored.

    Args:
        name: The name of the group.
        message_model: :data:`CLUSTERING` or :data:`BROADCASTING`.
        client_id: The folder of a broadcasting group's file. None: ``<host name>@DEFAULT``.
        local_offset_store_dir: The directory that holds the folders of all clients.
    """

    name: str
    message_model: str = CLUSTERING
    client_id: str | None = None
    local_offset_store_dir: str = LOCAL_OFFSET_STORE_DIR


class OffsetStore(Protocol):
    """Stores the offsets of one group."""

    def set_offsets(self, offsets: Mapping[MessageQueue, int], timeout_ms: int) -> Mapping[MessageQueue, int]:
        """Sets the offsets of these queues. The offsets of other queues stay the same.

        Returns the previous offsets if they can show that another client sets them too. Raises RmqpullError.
        """


class RemoteBrokerOffsetStore:
    """Stores offsets on the broker. ``client`` returns a client whose requests end within a number of milliseconds."""

    def __init__(self, client: Callable[[int], BrokerClient], group: str) -> None:
        self._client = client
        self._group = group

    def set_offsets(self, offsets: Mapping[MessageQueue, int], timeout_ms: int) -> Mapping[MessageQueue, int]:
        """See :class:`OffsetStore`."""
        return self._client(timeout_ms).set_consumer_offsets(self._group, offsets)


class _LookUp:
    """Finds offsets by time on the broker, and consumer offsets there or in the local file, if there is one."""

    def __init__(self, client: BrokerClient, pull_group: str, store: LocalFileOffsetStore | None) -> None:
        self._client = client
        self._pull_group = pull_group
        self._store = store

    def find_offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """See :class:`OffsetLookUp`."""
        return self._client.find_offsets_at(timestamps_ms, self._pull_group)

    def get_consumer_offsets(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """See :class:`OffsetLookUp`."""
        if self._store is not None:
            return self._store.get_offsets(queues)
        return self._client.get_consumer_offsets(group, queues)


def make_offset_store(group: ConsumerGroup, client: Callable[[int], BrokerClient]) -> OffsetStore:
    """Returns the store of the group's offsets. For ``client`` see :class:`RemoteBrokerOffsetStore`."""
    if group.message_model == BROADCASTING:
        return _make_local_store(group)
    return RemoteBrokerOffsetStore(client, group.name)


def make_offset_look_up(group: ConsumerGroup | None, client: BrokerClient, pull_group: str) -> OffsetLookUp:
    """Returns a look-up of the offsets at which a reader of the group starts and ends.

    ``pull_group`` is the group that the reader's pulls name: the broker may permit pulls to no other group.
    """
    if group is None or group.message_model != BROADCASTING:
        return _LookUp(client, pull_group, None)
    return _LookUp(client, pull_group, _make_local_store(group))


def _make_local_store(group: ConsumerGroup) -> LocalFileOffsetStore:
    return LocalFileOffsetStore(group.local_offset_store_dir, group.client_id, group.name)
