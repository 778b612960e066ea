"""What clients send on their Telemetry streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.rpc_client import RpcStream

OpenTelemetryStream = Callable[..., "RpcStream"]


def make_settings(
    client_type: str, *topics: str, group: str = "", expression: v2.FilterExpression | None = None
) -> Any:
    """Returns settings as a client sends them: those of a producer, or with a group those of a consumer."""
    resources = [v2.Resource(name=topic) for topic in topics]
    if not group:
        return v2.Settings(client_type=client_type, publishing=v2.Publishing(topics=resources))
    entries = [v2.SubscriptionEntry(topic=resource, expression=expression) for resource in resources]
    subscription = v2.Subscription(group=v2.Resource(name=group), subscriptions=entries)
    return v2.Settings(client_type=client_type, subscription=subscription)
