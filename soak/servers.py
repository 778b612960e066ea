"""The server of a round. The steps, the producers and the verdict of a round are the same for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from soak.judge import Queue
from soak.ledger import Attempt, Ledger
from soak.output import Row
from soak.plan import Setting, Step

GROUP = "soak"
COPIED, COPIED_QUEUES = "copied", 3
"""The topic that the sink writes to, or the prefix of several, and the number of queues of each. Each queue that is
read is a message group there.
"""
TRANSACTION_TIMEOUT_MS = 15_000
"""Longer than any step of a round keeps tasks from the broker."""


class NotAnswered(Exception):
    """A call failed, timed out or was refused. The server may have done what it asked for, or not."""


Send = Callable[[Ledger, str, Sequence[tuple[Attempt, bytes]], random.Random], None]
"""Sends messages to a topic, and records in the ledger which are acknowledged. Raises NotAnswered."""
Repair = Callable[[], object]


class Workload(NamedTuple):
    """What one producer does: how it sends, how many messages at most at a time, and its pause in seconds."""

    name: str
    send: Send
    count_max: int
    pause_s: float


class Copied(NamedTuple):
    """A message in a topic of the sink: the row that it is a copy of, and the id that identifies repetitions."""

    row: Row
    row_id: str


class Server(Protocol):
    """A server with the topics of a round. Kills and starts keep its addresses and its messages."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options of source and sink that lead to it."""

    @property
    def workloads(self) -> Sequence[Workload]:
        """The producers, each to be called by one thread."""

    def start(self) -> None:
        """Starts it for the first time, with the topics of the round."""

    def disturb(self, step: Step) -> Repair:
        """Kills, stops or disturbs what a step says. Returns what ends that."""

    def heal(self) -> None:
        """Ends all disturbances."""

    def add_queues(self, topic: str, count: int) -> None:
        """Adds queues to a topic, up to a limit."""

    def add_topic(self, topic: str, queues: int) -> None:
        """Creates a topic."""

    def read_ends(self, topics: Iterable[str]) -> dict[Queue, int]:
        """Returns the max offsets of all queues."""

    def read_consumer_offsets(self, topics: Iterable[str]) -> dict[Queue, int]:
        """Returns the consumer offsets of GROUP, of the queues that have one."""

    def read_copies(self, topics: Collection[str]) -> list[Copied]:
        """Returns all messages that the sink has written, those of each queue in order."""

    def find_leftovers(self) -> list[str]:
        """Returns what the sink should have ended by now, after it has waited for that."""

    def close(self) -> None:
        """Ends all of its processes and calls."""


def copy_topics(setting: Setting) -> list[str]:
    """Returns the topics that the sink writes to; none if Spark's own sink writes files."""
    if setting.delivery is None:
        return []
    return [COPIED] if setting.copy_topics == 1 else [f"{COPIED}-{number}" for number in range(setting.copy_topics)]
