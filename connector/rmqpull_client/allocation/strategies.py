"""The allocation strategies AVG, AVG_BY_CIRCLE, CONFIG and CONSISTENT_HASH, and BACKLOG, which divides ranges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5
from heapq import heapify, heapreplace

from rmqpull_client.model import MessageQueue, QueueRange

Shares = dict[str, list[MessageQueue]]
"""The queues of each consumer, by consumer id. Consumers without queues may be left out."""


class Strategy(ABC):
    """Divides the queues of one topic among consumers, like RocketMQ's ``AllocateMessageQueueStrategy``.

    Queues and consumer ids must be sorted, since every consumer calculates the result for itself.
    """

    @abstractmethod
    def allocate_all(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        """Returns the queues of all consumers. Raises ValueError with RocketMQ's text for arguments that it refuses."""

    def allocate(
        self, consumer_id: str, queues: Sequence[MessageQueue], consumers: Sequence[str]
    ) -> list[MessageQueue]:
        """Returns the queues of one consumer. A consumer that is not among ``consumers`` gets none.

        Raises ValueError for the empty arguments that RocketMQ refuses, with its texts and in its order (rules 2.1).
        """
        for value, refusal in (
            (consumer_id, "currentCID is empty"),
            (queues, "mqAll is null or mqAll empty"),
            (consumers, "cidAll is null or cidAll empty"),
        ):
            if not value:
                raise ValueError(refusal)
        if consumer_id not in consumers:
            return []
        return self.allocate_all(queues, consumers).get(consumer_id, [])


@dataclass(frozen=True)
class Averagely(Strategy):
    """``AllocateMessageQueueAveragely``: contiguous blocks, of which the first ones have one more queue (rules 2.2)."""

    def allocate_all(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        share, rest = divmod(len(queues), len(consumers))
        firsts = [index * share + min(index, rest) for index in range(len(consumers) + 1)]
        return {
            consumer: list(queues[first:after])
            for consumer, first, after in zip(consumers, firsts, firsts[1:], strict=False)
        }


@dataclass(frozen=True)
class AveragelyByCircle(Strategy):
    """``AllocateMessageQueueAveragelyByCircle``: the consumers get one queue each, in turn (rules 2.3)."""

    def allocate_all(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        return {consumer: list(queues[index :: len(consumers)]) for index, consumer in enumerate(consumers)}


@dataclass(frozen=True)
class ByConfig(Strategy):
    """``AllocateMessageQueueByConfig`` (rules 2.4): each consumer has a configured list of queues.

    RocketMQ's class holds one list, since each process has its own strategy. This one holds the lists of all consumers.
    """

    message_queue_list: Mapping[str, Sequence[MessageQueue]]

    def allocate_all(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        return {consumer: list(self.message_queue_list.get(consumer, ())) for consumer in consumers}

    def allocate(
        self, consumer_id: str, queues: Sequence[MessageQueue], consumers: Sequence[str]
    ) -> list[MessageQueue]:
        """Returns the configured list. The arguments are not checked, as in RocketMQ."""
        return list(self.message_queue_list.get(consumer_id, ()))


@dataclass(frozen=True)
class ConsistentHash(Strategy):
    """``AllocateMessageQueueConsistentHash`` (rules 2.7): a consumer that joins or leaves moves only its own queues.

    Each consumer has ``virtual_node_cnt`` nodes on the hash ring. Raises ValueError with RocketMQ's text if it is
    negative.
    """

    virtual_node_cnt: int = 10

    def __post_init__(self) -> None:
        if self.virtual_node_cnt < 0:
            raise ValueError(f"illegal virtualNodeCnt :{self.virtual_node_cnt}")

    def allocate_all(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        shares: Shares = {consumer: [] for consumer in consumers}
        hashes, owners = _make_ring(tuple(consumers), self.virtual_node_cnt)
        if owners:
            for queue in queues:
                index = bisect_left(hashes, hash_text(format_queue(queue)))
                shares[owners[index % len(owners)]].append(queue)
        return shares


def hash_text(text: str) -> int:
    """Returns the first four bytes of the MD5 digest as an unsigned big-endian integer."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def format_queue(queue: MessageQueue) -> str:
    """Returns what Java's ``MessageQueue.toString()`` returns."""
    topic, broker_name, queue_id = queue
    return f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"


@lru_cache(maxsize=8)  # every micro-batch asks for the same ring while the consumers stay the same
def _make_ring(consumers: tuple[str, ...], virtual_node_cnt: int) -> tuple[list[int], list[str]]:
    """Returns the hashes of the virtual nodes, sorted, and the consumer of each.

    Of two equal hashes the later node wins.
    """
    ring = {hash_text(f"{consumer}-{node}"): consumer for consumer in consumers for node in range(virtual_node_cnt)}
    hashes = sorted(ring)
    return hashes, [ring[value] for value in hashes]


def balance_backlog(ranges: Iterable[QueueRange], consumer_count: int) -> list[list[QueueRange]]:
    """Divides ranges of any topics among consumers so that each has about the same number of messages (BACKLOG).

    The longest range goes first, always to the consumer with the least messages so far. The busiest consumer has at
    most 4/3 of the optimum (Graham's bound). Equal ranges are sorted by queue and equal consumers by number, so equal
    input gives equal output.
    """
    shares: list[list[QueueRange]] = [[] for _ in range(consumer_count)]
    loads = [(0, number) for number in range(consumer_count)]
    heapify(loads)
    for entry in sorted(ranges, key=lambda entry: (-entry.size, entry.queue)):
        load, number = loads[0]
        shares[number].append(entry)
        heapreplace(loads, (load + entry.size, number))
    return [sorted(share) for share in shares]


def make_consumer_ids(count: int) -> tuple[str, ...]:
    """Returns ids for ``count`` consumers. They sort by number as strings, which is how RocketMQ sorts consumer ids."""
    width = len(str(count - 1))
    return tuple(f"{number:0{width}d}" for number in range(count))


@dataclass(frozen=True)
class Allocation:
    """A configured strategy and the ids of the consumers, sorted.

    Without ``strategy`` it is BACKLOG. Without ``consumers`` there are as many as the widest topic has queues.
    """

    name: str
    strategy: Strategy | None
    consumers: tuple[str, ...] | None = None

    def list_consumers(self, widest: int) -> tuple[str, ...]:
        """Returns the ids of all consumers if the widest topic has ``widest`` queues."""
        return self.consumers if self.consumers is not None else make_consumer_ids(widest)
