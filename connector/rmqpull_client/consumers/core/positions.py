"""Where a consumer is in each of its queues, and which consumer offsets it may set.

A position is the offset of the next message that the consumer's user gets. What the user has got counts as consumed
when they ask for more, or say so: then the offset behind it may be set, and never a later one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rmqpull_client.model import MessageQueue


@dataclass
class _Owned:
    position: int
    consumed: int
    """The position up to which messages count as consumed."""
    set_offset: int | None = None
    """The offset that this consumer has set last; None before the first time."""
    is_moved: bool = False
    """Whether the user, or a reset, has set the position: then an offset may go back."""


class Positions:
    """The queues that a consumer owns. Offsets are queue offsets.

    ``version`` changes whenever queues or positions change other than by :meth:`advance`: what was read before for
    other positions is then out of date.
    """

    def __init__(self) -> None:
        self._owned: dict[MessageQueue, _Owned] = {}
        self._paused: set[MessageQueue] = set()
        self.version = 0

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The owned queues."""
        return frozenset(self._owned)

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The owned queues that are paused."""
        return frozenset(self._paused)

    def add(self, starts: Mapping[MessageQueue, int]) -> None:
        """Takes queues, with the offsets at which the consumer starts."""
        for queue, offset in starts.items():
            self._owned[queue] = _Owned(offset, offset)
        self._change(starts)

    def drop(self, queues: Iterable[MessageQueue]) -> None:
        """Gives up queues. Their consumer offsets are not set later: another consumer may own them."""
        dropped = [queue for queue in queues if self._owned.pop(queue, None) is not None]
        self._paused.difference_update(dropped)
        self._change(dropped)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Stops reading from owned queues. Others are ignored."""
        self._set_paused(self._paused.union(queues).intersection(self._owned))

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Reads from queues again."""
        self._set_paused(self._paused.difference(queues))

    def move(self, queue: MessageQueue, offset: int) -> bool:
        """Sets the position of a queue. Returns whether it is owned."""
        owned = self._owned.get(queue)
        if owned is None:
            return False
        owned.position = owned.consumed = offset
        owned.is_moved = True
        self._change((queue,))
        return True

    def renew(self) -> None:
        """Makes what was read out of date, as after a change of filters."""
        self.version += 1

    def list_readable(self) -> dict[MessageQueue, int]:
        """Returns the positions of the queues that are not paused."""
        return {queue: own.position for queue, own in self._owned.items() if queue not in self._paused}

    def get(self, queue: MessageQueue) -> int | None:
        """Returns the position of a queue; None if it is not owned."""
        owned = self._owned.get(queue)
        return None if owned is None else owned.position

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Moves a position behind messages that the user gets now, or that nobody gets. Others are ignored."""
        if queue in self._owned:
            self._owned[queue].position = offset

    def mark_consumed(self) -> None:
        """Counts all that the user has got as consumed."""
        for own in self._owned.values():
            own.consumed = own.position

    def list_unset(self) -> dict[MessageQueue, int]:
        """Returns the offsets behind what is consumed that differ from what this consumer has set."""
        return {queue: own.consumed for queue, own in self._owned.items() if own.set_offset != own.consumed}

    def doubt(self, broker_name: str) -> None:
        """Notes that the queues of a broker may have had another owner meanwhile, who has set offsets."""
        for queue, own in self._owned.items():
            if queue.broker_name == broker_name:
                own.set_offset = None

    def list_first_set(self, offsets: Mapping[MessageQueue, int]) -> list[MessageQueue]:
        """Returns those of the queues whose offset a former owner may have set meanwhile, to a later one.

        After a rebalance a former owner may still set the offset of what it had consumed. The first one that the new
        owner sets must not go back behind that, unless it was told to.
        """
        return [
            queue
            for queue in offsets
            if (own := self._owned.get(queue)) is not None and own.set_offset is None and not own.is_moved
        ]

    def note_set(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Notes the offsets that brokers have acknowledged."""
        for queue, offset in offsets.items():
            if queue in self._owned:
                self._owned[queue].set_offset = offset
                self._owned[queue].is_moved = False

    def _set_paused(self, paused: set[MessageQueue]) -> None:
        changed = paused ^ self._paused
        self._paused = paused
        self._change(changed)

    def _change(self, queues: Collection[MessageQueue]) -> None:
        self.version += bool(queues)
