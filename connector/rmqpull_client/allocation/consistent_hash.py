"""CONSISTENT_HASH: when a consumer comes or goes, only its own queues move."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5

from rmqpull_client.allocation.strategy import Shares, Strategy
from rmqpull_client.model import MessageQueue


@dataclass(frozen=True)
class ConsistentHash(Strategy):
    """``AllocateMessageQueueConsistentHash`` (rules 2.7), each consumer ``virtual_node_cnt`` times in the
    ring. Raises ValueError for a negative number, in RocketMQ's words."""

    virtual_node_cnt: int = 10

    def __post_init__(self) -> None:
        if self.virtual_node_cnt < 0:
            raise ValueError(f"illegal virtualNodeCnt :{self.virtual_node_cnt}")

    def shares(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        shares: Shares = {consumer: [] for consumer in consumers}
        places, owners = _ring(tuple(consumers), self.virtual_node_cnt)
        if owners:
            for queue in queues:
                place = bisect_left(places, hash_of(_key(queue)))
                shares[owners[place % len(owners)]].append(queue)
        return shares


def hash_of(text: str) -> int:
    """The first four bytes of the MD5 digest, unsigned and big-endian."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _key(queue: MessageQueue) -> str:
    """``MessageQueue.toString()``."""
    topic, broker_name, queue_id = queue
    return f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"


@lru_cache(maxsize=8)  # the same for every micro-batch while consumers stay the same
def _ring(consumers: tuple[str, ...], virtual_node_cnt: int) -> tuple[list[int], list[str]]:
    """Where the virtual nodes stand, in order, and whose they are; of two in one place the later one stays."""
    ring = {hash_of(f"{consumer}-{node}"): consumer for consumer in consumers for node in range(virtual_node_cnt)}
    places = sorted(ring)
    return places, [ring[place] for place in places]
