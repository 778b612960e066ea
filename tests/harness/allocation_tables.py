"""The notation of the tables of rules 2: ``a0`` is queue 0 of broker a, and blanks separate queues."""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_client.allocation.strategies import Strategy
from rmqpull_client.model import MessageQueue


def queues(count: int, brokers: str = "a") -> list[MessageQueue]:
    return [MessageQueue("orders", broker, queue_id) for broker in brokers for queue_id in range(count)]


def written(share: Sequence[MessageQueue]) -> str:
    return " ".join(f"{queue.broker_name}{queue.queue_id}" for queue in share)


def shares(strategy: Strategy, owned: Sequence[MessageQueue], consumers: Sequence[str]) -> list[str]:
    """Allocates as each consumer does, one call for each."""
    return [written(strategy.allocate(consumer, owned, consumers)) for consumer in consumers]
