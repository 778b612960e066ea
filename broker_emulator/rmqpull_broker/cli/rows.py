"""Clients as rows of tables and JSON, for the commands that print them."""

from __future__ import annotations

from typing import Any

from rmqpull_broker.server.times import format_time
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


def make_client_row(client: rpc.Client) -> dict[str, Any]:
    """Makes the row of a client."""
    return {
        "clientId": client.client_id,
        "type": client.client_type,
        "language": client.language,
        "version": client.version,
        "lastHeartbeat": format_time(client.last_heartbeat_timestamp_ms),
        "groups": [membership.group for membership in client.memberships],
        "memberships": [_membership(membership) for membership in client.memberships],
    }


def _membership(membership: rpc.ClientMembership) -> dict[str, Any]:
    subscriptions = [
        {"topic": entry.topic, "type": entry.expression_type, "expression": entry.expression}
        for entry in membership.subscriptions
    ]
    return {
        "group": membership.group,
        "producer": membership.is_producer,
        "model": membership.message_model or None,
        "subscriptions": subscriptions,
    }
