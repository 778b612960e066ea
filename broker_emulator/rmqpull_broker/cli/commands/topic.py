"""``rmqpull-broker topic``: shows, creates, changes, describes and deletes topics."""

from __future__ import annotations

from typing import Any

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_client.cli.completing import topic_argument
from rmqpull_client.cli.frame import Group, as_json, flags
from rmqpull_client.cli.output import show_fields, show_json, show_table
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED")
_COLUMNS = ("topic", "type", "readQueues", "writeQueues", "perm")


class _TopicGroup(Group):
    """Takes another word than a command as the name of a topic, and calls the command ``topic`` of ``rmqpull``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in self.commands or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        from rmqpull_client.cli.commands.topic import command as show_topic  # the help does not need it

        return "topic", show_topic, args


@click.group(cls=_TopicGroup, examples=["rmqpull-broker topic orders", "rmqpull-broker topic create orders --queues 8"])
def command() -> None:
    """Show a topic; create, change, describe and delete topics.

    'topic NAME' shows the queues of a topic, as 'rmqpull topic NAME' does.
    """


_shape_options = flags(
    click.option(
        "--queues", type=int, metavar="N", help="Number of read and write queues on each broker [default: 8]."
    ),
    click.option("--read-queues", type=int, metavar="N", help="Number of queues for consumers."),
    click.option("--write-queues", type=int, metavar="N", help="Number of queues for producers."),
    click.option(
        "--perm",
        type=click.IntRange(0, 7),
        metavar="BITS",
        help="Permission, the sum of 4 (read), 2 (write) and 1 (inherit).",
    ),
    click.option(
        "--type", "message_type", type=click.Choice(TYPES, case_sensitive=False), help="Type of its messages."
    ),
    click.option("--order/--no-order", default=None, help="Whether the topic is globally ordered."),
)
"""The shape of a topic. A flag that is left out keeps its value, or gets the default in a new topic."""


@command.command(
    examples=[
        "rmqpull-broker topic create orders --queues 8",
        "rmqpull-broker topic create invoices --type FIFO --if-missing",
    ]
)
@topic_argument
@_shape_options
@click.option(
    "--if-missing", is_flag=True, help="Do nothing if a topic with this name exists, even with another shape."
)
@as_json
@connected
def create(connection: Connection, topic: str, if_missing: bool, as_json: bool, **shape: Any) -> None:
    """Create a topic. An existing topic with the same shape stays as it is."""
    if if_missing and _exists(connection, topic):
        response = rpc.PutTopicResponse(topic=_describe(connection, topic).topic)
    else:
        response = connection.admin("PutTopic", _put_request(topic, rpc.CREATE, **shape))
    _show_put(response, as_json)


@command.command(
    examples=[
        "rmqpull-broker topic update orders --write-queues 4",
        "rmqpull-broker topic update orders --perm 4 --endpoints 127.0.0.1:8081",
    ]
)
@topic_argument
@_shape_options
@click.option("--create", is_flag=True, help="Create the topic if it does not exist, as mqadmin's updateTopic does.")
@as_json
@connected
def update(connection: Connection, topic: str, create: bool, as_json: bool, **shape: Any) -> None:
    """Change an existing topic. Flags that are left out keep their values.

    With fewer queues, the removed ones are hidden. Their messages reappear when the number grows again.
    """
    mode = rpc.CREATE_OR_UPDATE if create else rpc.UPDATE
    _show_put(connection.admin("PutTopic", _put_request(topic, mode, **shape)), as_json)


def _put_request(name: str, mode: rpc.PutMode, queues: int | None, **shape: Any) -> rpc.PutTopicRequest:
    read, write = shape["read_queues"], shape["write_queues"]
    return rpc.PutTopicRequest(
        name=name,
        mode=mode,
        read_queue_nums=queues if read is None else read,
        write_queue_nums=queues if write is None else write,
        perm=shape["perm"],
        message_type=shape["message_type"],
        order=shape["order"],
    )


def _show_put(response: rpc.PutTopicResponse, as_json: bool) -> None:
    if as_json:
        show_json({**_row(response.topic), "created": response.created})
    else:
        show_table([_row(response.topic)], _COLUMNS)


def _exists(connection: Connection, name: str) -> bool:
    summaries = connection.admin("ListTopics", rpc.ListTopicsRequest(with_system_topics=True)).topics
    return any(summary.topic.name == name for summary in summaries)


@command.command(examples=["rmqpull-broker topic describe orders", "rmqpull-broker topic describe orders --json"])
@topic_argument
@as_json
@connected
def describe(connection: Connection, topic: str, as_json: bool) -> None:
    """Show the configuration of a topic, and the groups that read it. 'topic NAME' shows its queues."""
    response = _describe(connection, topic)
    fields = {**_row(response.topic), "groups": list(response.groups)}
    if as_json:
        show_json(fields)
    else:
        show_fields(fields)


@command.command(examples=["rmqpull-broker topic delete orders --yes"])
@topic_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@connected
def delete(connection: Connection, topic: str, yes: bool) -> None:
    """Delete a topic, its messages and all consumer offsets on it."""
    if not yes:
        click.confirm(f"Delete topic {topic} and all of its messages?", abort=True, err=True)
    connection.admin("DeleteTopic", rpc.DeleteTopicRequest(name=topic))
    click.echo(f"deleted topic {topic}", err=True)


def _describe(connection: Connection, name: str) -> rpc.DescribeTopicResponse:
    response: rpc.DescribeTopicResponse = connection.admin("DescribeTopic", rpc.DescribeTopicRequest(name=name))
    return response


def _row(topic: rpc.Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "type": topic.message_type,
        "readQueues": topic.read_queue_nums,
        "writeQueues": topic.write_queue_nums,
        "perm": format_perm(topic.perm),
        "order": topic.order,
        "system": topic.is_system,
    }


def format_perm(perm: int) -> str:
    """Formats a permission as RocketMQ does: 6 is ``RW-`` (rules 3.9.1)."""
    return "".join(letter if perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1)))
