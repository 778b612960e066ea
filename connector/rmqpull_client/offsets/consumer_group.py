"""The group that follows a query: its name, and where its offsets are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

CLUSTERING, BROADCASTING = "CLUSTERING", "BROADCASTING"
"""Values of option ``messageModel``, which are RocketMQ's: offsets on the broker, or in a file of the client."""
LOCAL_OFFSET_STORE_DIR = "~/.rocketmq_offsets"
"""RocketMQ's own (rules 1.11)."""


@dataclass(frozen=True)
class ConsumerGroup:
    """``client_id`` names the folder of a broadcasting group's file; None stands for one made of the host's name."""

    name: str
    message_model: str = CLUSTERING
    client_id: str | None = None
    local_offset_store_dir: str = LOCAL_OFFSET_STORE_DIR


class OffsetLookUp(Protocol):
    """What is asked of the broker: see :class:`rmqpull_client.transports.port.BrokerClient`."""

    def offsets_at(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first offset stored then or later, by queue; the end where there is none."""

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's offset, by queue; None where it has none."""


class _Progress(Protocol):
    @property
    def consumer_group(self) -> str | None: ...
    @property
    def commit_offsets(self) -> bool: ...
    @property
    def message_model(self) -> str: ...


def refuse_stray_progress(given: Mapping[str, str], checked: _Progress) -> None:
    """Raises OptionError for an option that lacks what it is about. ``given`` has names in lower case."""
    is_broadcasting = checked.message_model == BROADCASTING
    if checked.consumer_group is None and is_broadcasting:
        raise OptionError(
            f"Option messageModel is {BROADCASTING}, and no group is named whose offsets could be kept in a file. "
            "Name it with option consumerGroup."
        )
    if checked.consumer_group is None and checked.commit_offsets and "commitoffsets" in given:
        raise OptionError(
            "Option commitOffsets is true, and no group is named whose offsets could be set. "
            "Name it with option consumerGroup, or remove commitOffsets."
        )
    if "localoffsetstoredir" in given and not is_broadcasting:
        raise OptionError(
            f"Option localOffsetStoreDir is for messageModel {BROADCASTING}; in {CLUSTERING} the broker keeps the "
            f"offsets. Set messageModel to {BROADCASTING}, or remove localOffsetStoreDir."
        )
