"""``rmqpull topics``: lists topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import show
from rmqpull_client.cli.servers import connected
from rmqpull_client.model import TopicBounds

if TYPE_CHECKING:
    from rmqpull_client.transports.port import BrokerClient

_TOPICS_PER_CALL = 64
"""Limits the requests that are in flight: two for each queue, on a cluster."""


@click.command(cls=OnceCommand, examples=["rmqpull topics", "rmqpull topics --names", "rmqpull topics --json"])
@click.option("--names", is_flag=True, help="Only the names: no broker is asked for its queues.")
@as_json
@connected
def command(client: BrokerClient, names: bool, as_json: bool) -> None:
    """List the topics, with their queues and messages. RocketMQ's own topics are left out, but not those of retries
    and dead letters (%RETRY% and %DLQ%)."""
    topics = client.list_topics()
    if names:
        rows: list[dict[str, Any]] = [{"topic": topic} for topic in topics]
    else:
        bounds: dict[str, TopicBounds] = {}
        for begin in range(0, len(topics), _TOPICS_PER_CALL):
            bounds |= client.query_bounds(topics[begin : begin + _TOPICS_PER_CALL])
        rows = [_make_row(topic, bounds[topic]) for topic in topics if topic in bounds]
    columns = ("topic",) if names else ("topic", "brokers", "queues", "messages")
    show(rows, columns, as_json=as_json, nothing=f"no topics at {client.endpoints}")


def _make_row(topic: str, bounds: TopicBounds) -> dict[str, Any]:
    return {
        "topic": topic,
        "brokers": len({queue.broker_name for queue in bounds.queues}),
        "queues": len(bounds.queues),
        "messages": sum(own.max_offset - own.min_offset for own in bounds.queues.values()),
    }
