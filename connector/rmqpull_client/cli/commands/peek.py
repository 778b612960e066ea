"""``rmqpull peek``: shows messages without consuming them. The only trace is the group of RocketMQ's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.bounds import check_filter, query_queues
from rmqpull_client.cli.completing import topic_argument
from rmqpull_client.cli.frame import OnceCommand, as_json, flags
from rmqpull_client.cli.output import describe_count
from rmqpull_client.cli.servers import connected
from rmqpull_client.cli.values import NOT_EMPTY, QUEUE, TIME, QueueName
from rmqpull_client.model import SQL92, MessageFilter

if TYPE_CHECKING:
    from rmqpull_client.transports.port import BrokerClient

COUNT_MAX = 10_000
SCAN_DEFAULT = 100_000

filter_options = flags(
    click.option("--tag", metavar="TAGS", help="Only messages with one of these tags, such as 'paid || sent'."),
    click.option("--sql", metavar="EXPRESSION", help="Only messages that match this SQL92 filter expression."),
)

span_options = flags(
    click.option("--since", type=TIME, metavar="TIME", help="Only messages that were stored at this time or later."),
    click.option("--until", type=TIME, metavar="TIME", help="Only messages that were stored before this time."),
)


def make_filter(tag: str | None, sql: str | None) -> MessageFilter:
    """Returns the filter that two options name. Raises UsageError for both."""
    if tag is not None and sql is not None:
        raise click.UsageError("give only one of --tag and --sql")
    return MessageFilter(sql, SQL92) if sql is not None else MessageFilter("*" if tag is None else tag)


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull peek orders",
        "rmqpull peek orders --newest 3 --tag 'paid || sent' --json",
        "rmqpull peek orders --key 4711",
        "rmqpull peek orders --queue broker-a/3 --from-offset 1200",
        "rmqpull peek orders --at-time 2013-01-31T12:00:00Z --sql \"city = 'Riga'\"",
    ],
)
@topic_argument
@click.option(
    "-n",
    "--newest",
    "count",
    type=click.IntRange(1, COUNT_MAX),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of messages: the newest, or the first ones with --from-offset or --at-time.",
)
@click.option("--queue", type=QUEUE, metavar="[BROKER/]ID", help="Only this queue.")
@click.option("--from-offset", type=click.IntRange(min=0), metavar="OFFSET", help="Start at this offset.")
@click.option(
    "--at-time", type=TIME, metavar="TIME", help="Start at the first message that was stored at this time or later."
)
@click.option("--key", type=NOT_EMPTY, metavar="KEY", help="Only messages with this key.")
@click.option("--id", "msg_id", type=NOT_EMPTY, metavar="ID", help="Only the message with this id.")
@filter_options
@click.option(
    "--scan",
    type=click.IntRange(min=1),
    metavar="N",
    help="Max number of messages of each queue to read. If given, --key and --id use no index.  "
    f"[default: {SCAN_DEFAULT}]",
)
@as_json
@connected
def command(
    client: BrokerClient,
    topic: str,
    count: int,
    queue: QueueName | None,
    from_offset: int | None,
    at_time: int | None,
    key: str | None,
    msg_id: str | None,
    scan: int | None,
    as_json: bool,
    **expressions: Any,
) -> None:
    """Show messages of a topic without consuming them, oldest first.

    Brokers look up --key and --id in their index, unless --tag, --sql or --scan is given. Over gRPC, and through
    Apache's proxy, there is no index: then the queues are read, as far as --scan allows.

    With --json, each message is one line.
    """
    if from_offset is not None and at_time is not None:
        raise click.UsageError("give only one of --from-offset and --at-time")
    message_filter = make_filter(**expressions)
    # Imported here, because they need Arrow, which the help does not.
    from rmqpull_client.cli.looking_up import Wanted, look_up
    from rmqpull_client.cli.searching import Search, make_matches
    from rmqpull_client.cli.shown_messages import show_messages

    bounds = query_queues(client, topic, queue)
    if (key is not None or msg_id is not None) and scan is None and message_filter.keeps_everything:
        indexed = look_up(client, bounds, Wanted(key, msg_id, count, from_offset, at_time))
        if indexed is not None:
            show_messages(indexed.found, as_json=as_json)
            if indexed.advice:
                click.echo(indexed.advice, err=True)
            return
    check_filter(client, bounds, message_filter)
    search = Search(client, count, message_filter, make_matches(key, msg_id))
    scan = scan or SCAN_DEFAULT
    if from_offset is None and at_time is None:
        found, is_complete = search.find_newest(bounds, scan)
    else:
        offsets = dict.fromkeys(bounds, from_offset or 0)
        if at_time is not None:
            offsets = client.find_offsets_at(dict.fromkeys(bounds, at_time))
        found, is_complete = search.find_first(bounds, offsets, scan)
    show_messages(found, as_json=as_json)
    if not is_complete:
        click.echo(f"read {describe_count(scan)} of each queue; set a larger --scan to read more", err=True)
