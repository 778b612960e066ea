"""``rmqpull copy``: copies messages from topic to topic, also to another cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.bounds import check_filter, query_queues
from rmqpull_client.cli.commands.peek import filter_options, make_filter, span_options
from rmqpull_client.cli.commands.send import NOT_FOR_CLUSTERS
from rmqpull_client.cli.completing import complete_topics
from rmqpull_client.cli.copies.copied import Copied
from rmqpull_client.cli.copies.offsets_file import Copy
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import Refused, count_progress, describe_count, show_json
from rmqpull_client.cli.servers import connected_patiently, find_target, target_options
from rmqpull_client.loss import Loss

if TYPE_CHECKING:
    from rmqpull_client.connection import Connection
    from rmqpull_client.transports.port import BrokerClient


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull copy orders orders-of-test",
        "rmqpull copy orders orders --to-endpoints 127.0.0.1:8081 --since 2013-01-31T12:00:00Z --tag paid",
        "rmqpull copy orders orders --to-profile staging --offsets orders.json",
    ],
)
@click.argument("from_topic", metavar="FROM", shell_complete=complete_topics)
@click.argument("to_topic", metavar="TO")
@target_options
@span_options
@filter_options
@click.option(
    "--offsets",
    "offsets_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep in FILE up to which offsets messages are copied. With such a FILE, go on there.",
)
@as_json
@connected_patiently
@click.pass_obj
def command(
    connection: Connection,
    /,
    client: BrokerClient,
    from_topic: str,
    to_topic: str,
    to_name_servers: str | None,
    to_endpoints: str | None,
    to_profile: str | None,
    since: int | None,
    until: int | None,
    offsets_file: Path | None,
    as_json: bool,
    **expressions: Any,
) -> None:
    """Copy messages from topic to topic, also to another cluster. It ends at the last message of now.

    The topic TO must exist. Messages of one queue go to one queue, in order. The copies have the body, tag, keys,
    properties, message group and id of their messages, and new offsets and store times. Messages of the delay and
    transaction topics are copied as they were delivered.

    With --offsets, the same command goes on where it ended: after an interruption, or with what has come since. When
    an acknowledgement is lost or the command is killed, up to 10,000 messages can then be there twice.
    """
    target = find_target(connection, to_name_servers, to_endpoints, to_profile)
    servers = connection.endpoints_and_namespace, target.endpoints_and_namespace
    if from_topic == to_topic and servers[0] == servers[1]:
        raise click.UsageError("FROM and TO are the same topic: name another one, or another cluster")
    message_filter = make_filter(**expressions)
    copy = Copy(
        from_servers=servers[0],
        from_topic=from_topic,
        to_servers=servers[1],
        to_topic=to_topic,
        expression=message_filter.expression,
        expression_type=message_filter.expression_type,
    )
    copied = Copied(copy, offsets_file)
    # Imported here, because they need Arrow, which the help does not.
    from rmqpull_client.cli.copies.copier import Copier, list_columns
    from rmqpull_client.transports.choice import connect

    bounds = query_queues(client, from_topic)
    to_client = client if target is connection else connect(target)
    to_queues = list(query_queues(to_client, to_topic))
    if not to_queues:
        raise Refused(f"topic {to_topic} has no queue at {to_client.endpoints}")
    check_filter(client, bounds, message_filter)
    times = [None if at is None else client.find_offsets_at(dict.fromkeys(bounds, at)) for at in (since, until)]
    ranges = copied.list_ranges(bounds, *times)
    columns = list_columns(NOT_FOR_CLUSTERS if target.name_servers else frozenset())
    places = {queue: to_queues[at % len(to_queues)] for at, queue in enumerate(bounds)}
    losses = list[Loss]()
    with copied.describe_end(), count_progress(sum(entry.size for entry in ranges), "copying") as advance:
        copied.keep({}, 0)  # a file that cannot be written is refused before anything is sent
        copier = Copier(client, to_client, to_topic, columns, places, lambda *reached: advance(copied.keep(*reached)))
        copier.copy(ranges, message_filter, losses.append)
    for loss in losses:
        click.echo(loss.text, err=True)
    if as_json:
        show_json({"from": from_topic, "to": to_topic, "messages": copied.message_count, "lost": len(losses)})
    click.echo(f"copied {describe_count(copied.message_count)}", err=True)
    if losses:
        raise Refused("messages were deleted before they were copied")
