"""``rmqpull-broker lock``: lists, takes and releases queue locks of consumer groups (rules 3.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_broker.server.times import format_time
from rmqpull_client.cli.frame import Group, as_json
from rmqpull_client.cli.output import Refused, show
from rmqpull_client.cli.values import QUEUE, QueueName
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

_COLUMNS = ("group", "topic", "brokerName", "queueId", "clientId", "lastUpdate")


@click.group(cls=Group, examples=["rmqpull-broker lock list"])
def command() -> None:
    """List, take and release queue locks of consumer groups."""


@command.command("list", examples=["rmqpull-broker lock list", "rmqpull-broker lock list --group readers --json"])
@click.option("--group", default="", metavar="GROUP", help="Only locks of this group.")
@as_json
@connected
def list_locks(connection: Connection, group: str, as_json: bool) -> None:
    """List the locks that have not expired."""
    response = connection.admin("ListLocks", rpc.ListLocksRequest(group=group))
    rows = [
        {
            "group": lock.group,
            **_queue_row(lock.queue),
            "clientId": lock.client_id,
            "lastUpdate": format_time(lock.last_update_timestamp_ms),
        }
        for lock in response.locks
    ]
    show(rows, _COLUMNS, as_json=as_json, nothing="no queue is locked")


def _lock_arguments(function: Any) -> Any:
    options = (
        click.argument("group"),
        click.argument("topic"),
        click.option("--client-id", required=True, metavar="ID", help="The client that owns the lock."),
        click.option(
            "--queue",
            "queues",
            type=QUEUE,
            metavar="BROKER/ID",
            multiple=True,
            required=True,
            help="The queue; may be repeated.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command(examples=["rmqpull-broker lock take readers orders --client-id tester --queue broker-a/0"])
@_lock_arguments
@as_json
@connected
def take(
    connection: Connection, group: str, topic: str, client_id: str, queues: Sequence[QueueName], as_json: bool
) -> None:
    """Take or renew locks. Fails if another client holds one of them; the others are taken."""
    wanted = _queues(topic, queues)
    request = rpc.LockQueuesRequest(group=group, client_id=client_id, queues=wanted)
    response = connection.admin("LockQueues", request)
    show([_queue_row(queue) for queue in response.locked], _COLUMNS[1:4], as_json=as_json)
    if missing := len(wanted) - len(response.locked):
        raise Refused(f"{missing} of {len(wanted)} queues are locked by another client of group {group}")


@command.command(examples=["rmqpull-broker lock release readers orders --client-id tester --queue broker-a/0"])
@_lock_arguments
@connected
def release(connection: Connection, group: str, topic: str, client_id: str, queues: Sequence[QueueName]) -> None:
    """Release the locks of this client. Locks of other clients stay."""
    request = rpc.UnlockQueuesRequest(group=group, client_id=client_id, queues=_queues(topic, queues))
    connection.admin("UnlockQueues", request)


def _queues(topic: str, queues: Sequence[QueueName]) -> list[v1.Queue]:
    if any(queue.broker_name is None for queue in queues):
        raise click.UsageError("--queue needs the name of the broker, such as broker-a/0")
    return [v1.Queue(topic=topic, broker_name=queue.broker_name, queue_id=queue.queue_id) for queue in queues]


def _queue_row(queue: v1.Queue) -> dict[str, Any]:
    return {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}
