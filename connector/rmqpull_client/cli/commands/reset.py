"""``rmqpull reset``: sets the consumer offsets of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.bounds import query_queues
from rmqpull_client.cli.completing import group_argument, topic_argument
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import Refused, show
from rmqpull_client.cli.servers import connected
from rmqpull_client.cli.values import QUEUE, TIME, QueueName
from rmqpull_client.model import EARLIEST_MS, LATEST_MS, Bounds, MessageQueue, ResetTarget

if TYPE_CHECKING:
    from rmqpull_client.transports.port import BrokerClient
    from rmqpull_client.transports.tools_port import BrokerReset

_COLUMNS = ("topic", "brokerName", "queueId", "from", "to")


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull reset readers orders --to earliest",
        "rmqpull reset readers orders --to-time 2013-01-31T12:00:00Z --dry-run",
        "rmqpull reset readers orders --queue broker-a/3 --to-offset 1200 --yes",
    ],
)
@group_argument
@topic_argument
@click.option("--queue", type=QUEUE, metavar="[BROKER/]ID", help="Only this queue [default: all queues of the topic].")
@click.option("--to", type=click.Choice(["earliest", "latest"]), help="Set to the min or max offset of each queue.")
@click.option(
    "--to-time", type=TIME, metavar="TIME", help="Set to the first message that was stored at this time or later."
)
@click.option("--to-offset", type=click.IntRange(min=0), metavar="OFFSET", help="Set to this offset; needs --queue.")
@click.option("--dry-run", is_flag=True, help="Show the result, but change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@as_json
@connected
def command(
    client: BrokerClient,
    group: str,
    topic: str,
    queue: QueueName | None,
    to: str | None,
    to_time: int | None,
    to_offset: int | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Set the consumer offsets of a group on a topic.

    Give exactly one of --to, --to-time and --to-offset.

    If the group has members, its brokers are asked to reset it, and choose the offsets by the time. From release 5.2
    on they set the offsets, and the members continue there. Older ones only tell the members, of which push consumers
    follow; they reset no single queue, and before 5.0 they choose the message nearest to the time.
    """
    if sum(target is not None for target in (to, to_time, to_offset)) != 1:
        raise click.UsageError("give exactly one of --to, --to-time and --to-offset")
    if to_offset is not None and queue is None:
        raise click.UsageError("--to-offset needs --queue")
    if as_json and not (dry_run or yes):
        raise click.UsageError("--json needs --yes or --dry-run, because nobody can be asked")
    bounds = query_queues(client, topic, queue)
    if to_time is not None:
        targets = client.find_offsets_at(dict.fromkeys(bounds, to_time))
    elif to_offset is not None:
        targets = _check(bounds, to_offset)
    else:
        targets = {own: limits[0] if to == "earliest" else limits[1] for own, limits in bounds.items()}
    # Brokers would take a time before 1970 for the end.
    timestamp_ms = LATEST_MS if to == "latest" else max(EARLIEST_MS, to_time or EARLIEST_MS)
    target = ResetTarget(topic, timestamp_ms, None if queue is None else queue.queue_id, to_offset)
    by_brokers = client.prepare_reset(group, list(targets), target)
    previous = client.get_consumer_offsets(group, list(targets))
    rows = [_make_row(own, previous[own], offset) for own, offset in targets.items()]
    if by_brokers is not None:
        click.echo(_describe(group, by_brokers, to_offset), err=True)
    if not (dry_run or yes):
        show(rows, _COLUMNS, as_json=False)
        click.confirm(f"Set these consumer offsets of group {group}?", abort=True, err=True)
    if dry_run:
        done = "--dry-run: nothing was changed"
    elif by_brokers is None:
        client.set_consumer_offsets(group, targets)
        done = f"set {len(rows)} consumer offsets"
    else:
        found = by_brokers.run()
        rows = [_make_row(own, previous.get(own), found.get(own)) for own in sorted({*targets, *found})]
        done = f"brokers {'set' if by_brokers.is_stored else 'told the members'} {len(found)} consumer offsets"
    if dry_run or yes or by_brokers is not None:
        show(rows, _COLUMNS, as_json=as_json)
    click.echo(done, err=True)


def _describe(group: str, by_brokers: BrokerReset, to_offset: int | None) -> str:
    count = len(by_brokers.members)
    members = f"group {group} has {count} member{'s' * (count > 1)}"
    if not by_brokers.is_stored:
        return f"{members}: brokers choose the offsets by the time, and only tell the members, who set them"
    return f"{members}, who continue where brokers set the offsets{'' if to_offset is not None else ', by the time'}"


def _check(bounds: Mapping[MessageQueue, Bounds], offset: int) -> dict[MessageQueue, int]:
    for queue, own in bounds.items():
        if own.clamp(offset) != offset:
            raise Refused(f"offset {offset} is outside queue {queue}, which has [{own.min_offset}, {own.max_offset}]")
    return dict.fromkeys(bounds, offset)


def _make_row(queue: MessageQueue, previous: int | None, target: int | None) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "from": previous,
        "to": target,
    }
