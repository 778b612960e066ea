"""CONSISTENT_HASH: the tables of rules 2.7, which RocketMQ's own class confirmed."""

from __future__ import annotations

import pytest

from rmqpull_client.allocation.strategies import ConsistentHash, hash_text
from rmqpull_client.model import MessageQueue
from tests.harness.allocation_tables import written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CID-0-0", 1900518137),
        ("CID-0-1", 2611424514),
        ("CID-1-0", 1110034835),
        ("CID-2-9", 2952140219),
        ("192.168.0.1@100-0", 1808234675),
        ("MessageQueue [topic=T, brokerName=broker-a, queueId=0]", 1630488180),
        ("MessageQueue [topic=T, brokerName=broker-a, queueId=7]", 1138816901),
        ("MessageQueue [topic=T, brokerName=broker-b, queueId=3]", 2071781442),
    ],
)
def test_the_hash_equals_rocketmq_s(text: str, expected: int) -> None:
    assert hash_text(text) == expected


def queues(count: int, brokers: str = "a") -> list[MessageQueue]:
    return [MessageQueue("T", f"broker-{broker}", queue_id) for broker in brokers for queue_id in range(count)]


def allocated(nodes: int, owned: list[MessageQueue], consumers: str) -> list[str]:
    strategy, ids = ConsistentHash(nodes), consumers.split()
    return [written(strategy.allocate(consumer, owned, ids)).replace("broker-", "") for consumer in ids]


@pytest.mark.parametrize(
    ("nodes", "consumers", "expected"),
    [
        (10, "CID-0", ["a0 a1 a2 a3 a4 a5 a6 a7"]),
        (10, "CID-0 CID-1", ["a0 a3 a4", "a1 a2 a5 a6 a7"]),
        (10, "CID-0 CID-1 CID-2", ["a3 a4", "a1 a5 a7", "a0 a2 a6"]),
        (10, "CID-0 CID-1 CID-2 CID-3", ["a3 a4", "a1 a7", "a0 a2 a6", "a5"]),
        (10, "CID-0 CID-2", ["a1 a3 a4 a5 a7", "a0 a2 a6"]),
        (10, "CID-0 CID-1 CID-2 CID-NEW", ["a3 a4", "a1 a7", "a0 a2 a6", "a5"]),
        (1, "CID-0 CID-1", ["a0 a7", "a1 a2 a3 a4 a5 a6"]),
        (100, "CID-0 CID-1", ["a1 a3 a6", "a0 a2 a4 a5 a7"]),
        (3, "CID-0 CID-1 CID-2", ["a0 a1 a6", "a2 a3 a5 a7", "a4"]),
        (0, "CID-0 CID-1", ["", ""]),
    ],
)
def test_queues_go_to_the_next_node_of_the_ring(nodes: int, consumers: str, expected: list[str]) -> None:
    assert allocated(nodes, queues(8), consumers) == expected


def test_queues_of_two_brokers_go_to_the_consumers_of_two_hosts() -> None:
    assert allocated(10, queues(4, "ab"), "192.168.0.1@100 192.168.0.2@100") == ["a0 a3 b1 b2", "a1 a2 b0 b3"]


def test_a_negative_number_of_nodes_is_refused_with_rocketmq_s_text() -> None:
    with pytest.raises(ValueError, match=r"^illegal virtualNodeCnt :-1$"):
        ConsistentHash(-1)
