"""Where a group's offsets are kept: on the broker, or in the file of a broadcasting group (rules 1.11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.consumer_group import BROADCASTING, ConsumerGroup, OffsetLookUp
from rmqpull_client.offsets.local_file import LocalFileOffsetStore
from rmqpull_client.transports.port import BrokerClient


class OffsetStore(Protocol):
    """Takes a group's offsets. Raises RmqpullError."""

    def commit(self, offsets: Mapping[MessageQueue, int], timeout_ms: int) -> Mapping[MessageQueue, int]:
        """Sets the offsets of these queues and leaves others alone.

        Returns the offsets before, where they tell whether somebody else sets them.
        """


class RemoteBrokerOffsetStore:
    """The broker. ``client`` gives one whose requests take no longer than the milliseconds that it is told."""

    def __init__(self, client: Callable[[int], BrokerClient], group: str) -> None:
        self._client = client
        self._group = group

    def commit(self, offsets: Mapping[MessageQueue, int], timeout_ms: int) -> Mapping[MessageQueue, int]:
        """One call, or some for each queue at once."""
        return self._client(timeout_ms).commit(self._group, offsets)


class _BroadcastingLookUp:
    """Times are searched by the broker; where the group is, its file says."""

    def __init__(self, client: BrokerClient, store: LocalFileOffsetStore) -> None:
        self._client = client
        self._store = store

    def offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """See :class:`OffsetLookUp`."""
        return self._client.offsets_at(timestamps_ms)

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """See :class:`OffsetLookUp`."""
        return self._store.committed(queues)


def offset_store(group: ConsumerGroup, client: Callable[[int], BrokerClient]) -> OffsetStore:
    """Where the group's offsets are to be set."""
    return _local(group) if group.message_model == BROADCASTING else RemoteBrokerOffsetStore(client, group.name)


def offset_look_up(group: ConsumerGroup | None, client: BrokerClient) -> OffsetLookUp:
    """Who is asked where a query begins."""
    if group is None or group.message_model != BROADCASTING:
        return client
    return _BroadcastingLookUp(client, _local(group))


def _local(group: ConsumerGroup) -> LocalFileOffsetStore:
    return LocalFileOffsetStore(group.local_offset_store_dir, group.client_id, group.name)
