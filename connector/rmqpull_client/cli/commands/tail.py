"""``rmqpull tail``: shows the newest messages of topics, and those that come, without a consumer group."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.bounds import check_filter, query_queues
from rmqpull_client.cli.commands.peek import COUNT_MAX, SCAN_DEFAULT, filter_options, make_filter
from rmqpull_client.cli.completing import complete_topics
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.servers import connected_patiently
from rmqpull_client.cli.values import TIME
from rmqpull_client.model import Bounds, MessageQueue

if TYPE_CHECKING:
    from rmqpull_client.cli.searching import Found
    from rmqpull_client.transports.port import BrokerClient


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull tail orders",
        "rmqpull tail orders invoices -f --newest 0",
        "rmqpull tail orders -f --since 2013-01-31T12:00:00Z --tag paid --json",
        "rmqpull tail orders -f --newest 0 --limit 1",
    ],
)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option("-f", "--follow", is_flag=True, help="Wait for more messages, until Ctrl-C.")
@click.option(
    "-n",
    "--newest",
    "count",
    type=click.IntRange(0, COUNT_MAX),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of messages of each topic to show first.",
)
@click.option("--since", type=TIME, metavar="TIME", help="Show what was stored since then instead; needs --follow.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after this number of messages.")
@filter_options
@as_json
@connected_patiently
def command(
    client: BrokerClient,
    topics: Sequence[str],
    follow: bool,
    count: int,
    since: int | None,
    limit: int | None,
    as_json: bool,
    **expressions: Any,
) -> None:
    """Show the newest messages of topics, and follow them: a line for each.

    No consumer group is joined or changed. Queues that are added meanwhile are followed too.
    """
    if since is not None and not follow:
        raise click.UsageError("--since needs --follow")
    message_filter = make_filter(**expressions)
    # Imported here, because they need Arrow, which the help does not.
    from rmqpull_client.cli.following import Follower
    from rmqpull_client.cli.searching import Search
    from rmqpull_client.cli.shown_messages import show_line

    bounds: dict[MessageQueue, Bounds] = {}
    for topic in dict.fromkeys(topics):
        bounds |= query_queues(client, topic)
    check_filter(client, bounds, message_filter)
    shown: list[Found] = []
    if since is None and count:
        for topic in dict.fromkeys(topics):
            shown += Search(client, count, message_filter).find_newest(_select(bounds, topic), SCAN_DEFAULT)[0]
    coming: Iterable[Found] = ()
    if follow:
        offsets = {queue: own.max_offset for queue, own in bounds.items()}
        if since is not None:
            offsets = client.find_offsets_at(dict.fromkeys(bounds, since))
        follower = Follower(client, topics, offsets, message_filter, lambda sentence: click.echo(sentence, err=True))
        coming = itertools.chain.from_iterable(follower.follow())
    try:
        for found in itertools.islice(itertools.chain(sorted(shown, key=lambda found: found[:3]), coming), limit):
            show_line(found, as_json=as_json)
    except KeyboardInterrupt:
        pass  # the normal end


def _select(bounds: Mapping[MessageQueue, Bounds], topic: str) -> dict[MessageQueue, Bounds]:
    return {queue: own for queue, own in bounds.items() if queue.topic == topic}
