"""What is asked of a broker about bytes: where ranges of queues are to be cut so that no part has too many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rmqpull_client.model import MessageQueue


class RangeToCut(NamedTuple):
    """Asks for parts of ``byte_max`` bytes at most, the first ``parts_max`` of them; 0 for all."""

    queue: MessageQueue
    from_offset: int
    until_offset: int
    byte_max: int
    parts_max: int = 0


class Part(NamedTuple):
    """Messages from where the part before it ends up to ``until_offset``, and their bytes."""

    until_offset: int
    byte_count: int


class RangeCutter(Protocol):
    """See :class:`rmqpull_client.transports.port.BrokerClient`."""

    def cut_ranges(self, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
        """The parts of each range, as long as they may be; a message above the limit is a part of its own.

        Messages that are not there are in no part: a range of which nothing is there has none.
        """
