"""The queues of a topic with their bounds, as commands ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rmqpull_client.cli.output import Refused
from rmqpull_client.model import Bounds, MessageFilter, MessageQueue
from rmqpull_proto.names import TOOLS_GROUP

if TYPE_CHECKING:
    from rmqpull_client.cli.values import QueueName
    from rmqpull_client.transports.port import BrokerClient


def query_queues(client: BrokerClient, topic: str, queue: QueueName | None = None) -> Mapping[MessageQueue, Bounds]:
    """Returns the readable queues of a topic with their bounds, or those of one name. Raises Refused without any."""
    found = client.query_bounds([topic]).get(topic)
    if found is None:
        raise Refused(f"topic {topic} does not exist at {client.endpoints}", "TOPIC_NOT_FOUND")
    chosen = {
        own: bounds
        for own, bounds in sorted(found.queues.items())
        if queue is None or (own.queue_id == queue.queue_id and queue.broker_name in (None, own.broker_name))
    }
    if queue is not None and not chosen:
        name = queue.queue_id if queue.broker_name is None else f"{queue.broker_name}/{queue.queue_id}"
        raise Refused(f"topic {topic} has no queue {name}; it has {_describe(found.queues)}")
    return chosen


def _describe(queues: Iterable[MessageQueue]) -> str:
    ids: dict[str, list[int]] = {}
    for queue in sorted(queues):
        ids.setdefault(queue.broker_name, []).append(queue.queue_id)
    shown = [f"{name}/{own[0]}" + (f" to {name}/{own[-1]}" if len(own) > 1 else "") for name, own in ids.items()]
    return ", ".join(shown) or "none"


def check_filter(client: BrokerClient, bounds: Mapping[MessageQueue, Bounds], message_filter: MessageFilter) -> None:
    """Has a broker evaluate a filter before anything is read: some would send every message for a malformed one.

    Raises RmqpullError.
    """
    if not message_filter.keeps_everything:
        for queue, own in list(bounds.items())[:1]:
            client.check_filter(TOOLS_GROUP, queue, own.min_offset, message_filter)
