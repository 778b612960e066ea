"""``rmqpull-broker group``: creates, changes, describes and deletes consumer groups."""

from __future__ import annotations

from typing import Any

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_broker.cli.rows import make_client_row
from rmqpull_client.cli.completing import group_argument
from rmqpull_client.cli.frame import Group, as_json, flags
from rmqpull_client.cli.output import show_fields, show_json, show_table
from rmqpull_client.cli.values import RETRY_POLICY, RetryPolicy, format_duration
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_COLUMNS = ("group", "consume", "broadcast", "orderly", "retryQueues", "retryMaxTimes")


@click.group(
    cls=Group,
    examples=[
        "rmqpull-broker group describe readers",
        "rmqpull-broker group create readers",
    ],
)
def command() -> None:
    """Create, change, describe and delete consumer groups."""


_config_options = flags(
    click.option("--consume/--no-consume", default=None, help="Whether the group may consume."),
    click.option("--broadcast/--no-broadcast", default=None, help="Whether each member may get all messages."),
    click.option("--orderly/--no-orderly", default=None, help="Whether the group consumes in order (FIFO)."),
    click.option("--retry-queues", type=int, metavar="N", help="Number of queues of its retry topic."),
    click.option(
        "--retry-max-times",
        type=int,
        metavar="N",
        help="Max redeliveries of a message before it becomes a dead letter.",
    ),
    click.option(
        "--retry-policy",
        type=RETRY_POLICY,
        metavar="POLICY",
        help="Delays before redeliveries, as gRPC push consumers apply them: 10s,30s,1m; or "
        "exponential:FIRST:LONGEST:FACTOR, such as exponential:5s:2h:2; or default.",
    ),
    click.option("--notify/--no-notify", default=None, help="Whether members learn that others join or leave."),
)
"""The configuration of a group. A flag that is left out keeps its value, or gets the default in a new group."""


@command.command(examples=["rmqpull-broker group create readers", "rmqpull-broker group create readers --orderly"])
@group_argument
@_config_options
@as_json
@connected
def create(connection: Connection, group: str, as_json: bool, **config: Any) -> None:
    """Create a consumer group. An existing group with the same configuration stays as it is."""
    _put(connection, group, rpc.CREATE, as_json, config)


@command.command(
    examples=[
        "rmqpull-broker group update readers --no-consume",
        "rmqpull-broker group update readers --retry-max-times 3 --create",
    ]
)
@group_argument
@_config_options
@click.option("--create", is_flag=True, help="Create the group if it does not exist, as mqadmin's updateSubGroup does.")
@as_json
@connected
def update(connection: Connection, group: str, create: bool, as_json: bool, **config: Any) -> None:
    """Change an existing consumer group. Flags that are left out keep their values."""
    _put(connection, group, rpc.CREATE_OR_UPDATE if create else rpc.UPDATE, as_json, config)


def _put(connection: Connection, name: str, mode: rpc.PutMode, as_json: bool, config: dict[str, Any]) -> None:
    request = rpc.PutGroupRequest(
        name=name,
        mode=mode,
        consume_enable=config["consume"],
        consume_broadcast_enable=config["broadcast"],
        consume_message_orderly=config["orderly"],
        retry_queue_nums=config["retry_queues"],
        retry_max_times=config["retry_max_times"],
        notify_consumer_ids_changed_enable=config["notify"],
        retry_policy=None if config["retry_policy"] is None else _make_retry_policy(config["retry_policy"]),
    )
    response = connection.admin("PutGroup", request)
    if as_json:
        show_json({**_row(response.group), "created": response.created})
    else:
        show_table([_row(response.group)], _COLUMNS)


@command.command(examples=["rmqpull-broker group describe readers", "rmqpull-broker group describe readers --json"])
@group_argument
@as_json
@connected
def describe(connection: Connection, group: str, as_json: bool) -> None:
    """Show the configuration of a group and its connected clients. 'lag' shows its progress."""
    response = connection.admin("DescribeGroup", rpc.DescribeGroupRequest(name=group))
    fields = {**_row(response.group), "model": response.message_model or None}
    clients = [make_client_row(client) for client in response.clients]
    if as_json:
        show_json({**fields, "clients": clients})
        return
    show_fields(fields)
    if clients:
        click.echo()
        show_table(clients, ("clientId", "type", "language", "version", "lastHeartbeat"))


@command.command(examples=["rmqpull-broker group delete readers --yes"])
@group_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@connected
def delete(connection: Connection, group: str, yes: bool) -> None:
    """Delete a consumer group and all of its consumer offsets."""
    if not yes:
        click.confirm(f"Delete group {group} and all of its consumer offsets?", abort=True, err=True)
    connection.admin("DeleteGroup", rpc.DeleteGroupRequest(name=group))
    click.echo(f"deleted group {group}", err=True)


def _row(group: rpc.Group) -> dict[str, Any]:
    return {
        "group": group.name,
        "consume": group.consume_enable,
        "broadcast": group.consume_broadcast_enable,
        "orderly": group.consume_message_orderly,
        "retryQueues": group.retry_queue_nums,
        "retryMaxTimes": group.retry_max_times,
        "notify": group.notify_consumer_ids_changed_enable,
        "retryPolicy": _show_retry_policy(group.retry_policy),
    }


def _make_retry_policy(policy: RetryPolicy) -> v2.RetryPolicy:
    made = v2.RetryPolicy()
    if policy.multiplier:
        first_ms, longest_ms = policy.delays_ms
        made.exponential_backoff.initial.FromMilliseconds(first_ms)
        made.exponential_backoff.max.FromMilliseconds(longest_ms)
        made.exponential_backoff.multiplier = policy.multiplier
    for delay_ms in () if policy.multiplier else policy.delays_ms:
        made.customized_backoff.next.add().FromMilliseconds(delay_ms)
    return made


def _show_retry_policy(policy: v2.RetryPolicy) -> str:
    """Formats a policy as the option takes it."""
    if policy.HasField("exponential_backoff"):
        own = policy.exponential_backoff
        times = (format_duration(time.ToMilliseconds()) for time in (own.initial, own.max))
        return ":".join(["exponential", *times, f"{own.multiplier:g}"])
    if policy.HasField("customized_backoff"):
        return ",".join(format_duration(delay.ToMilliseconds()) for delay in policy.customized_backoff.next)
    return "default"
