"""``rmqpull-broker peek``: shows messages without consuming them. The only trace is the group of the tool.

Finds the newest messages by reading each queue backwards, window by window, until there are enough. There is no index
of keys and ids, so it searches for them in the same way, as far back as ``--scan`` allows.
"""

from __future__ import annotations

import heapq
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import click
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.cli.arguments import optional_topic_argument
from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_broker.cli.in_flight import show_in_flight
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.message_lines import make_json_rows
from rmqpull_client.cli.output import Refused, show_json, show_table
from rmqpull_client.cli.values import QUEUE, TIME, QueueName
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as v2_service
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.names import TOOLS_GROUP
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

NEWEST_MAX = 10_000
SCAN_DEFAULT = 100_000
_WINDOW_ROWS = 2_000
_BODY_CHARACTERS = 120
_COLUMNS = ("storeTimestamp", "queue", "queueOffset", "tags", "keys", "properties", "body")


class Found(NamedTuple):
    """A matching row: its store time, queue and offset, and a batch with this row."""

    store_us: int
    queue: MessageQueueKey
    offset: int
    row: pa.RecordBatch


MessageQueueKey = tuple[str, int]
Matches = Callable[[pa.RecordBatch], pa.Array]


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull-broker peek orders",
        "rmqpull-broker peek orders --newest 3 --tag 'paid || sent' --json",
        "rmqpull-broker peek orders --key 4711",
        "rmqpull-broker peek orders --queue broker-a/3 --from-offset 1200",
        "rmqpull-broker peek orders --at-time 2013-01-31T12:00:00Z --sql \"city = 'Riga'\"",
        "rmqpull-broker peek orders --in-flight --group readers",
    ],
)
@optional_topic_argument
@click.option(
    "--in-flight", is_flag=True, help="Messages that consumers have received and not acknowledged yet, of all topics."
)
@click.option("--group", metavar="TOOLS_GROUP", help="Only messages that are in flight for this group.")
@click.option(
    "-n",
    "--newest",
    "count",
    type=click.IntRange(1, NEWEST_MAX),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of messages: the newest, or the first ones with --from-offset, --at-time or --in-flight.",
)
@click.option("--queue", type=QUEUE, metavar="[BROKER/]ID", help="Only this queue.")
@click.option("--from-offset", type=click.IntRange(min=0), metavar="OFFSET", help="Start at this offset.")
@click.option(
    "--at-time", type=TIME, metavar="TIME", help="Start at the first message that was stored at this time or later."
)
@click.option("--key", metavar="KEY", help="Only messages with this key.")
@click.option("--id", "msg_id", metavar="ID", help="Only the message with this id.")
@click.option("--tag", metavar="TAGS", help="Only messages with one of these tags, such as 'paid || sent'.")
@click.option("--sql", metavar="EXPRESSION", help="Only messages that match this SQL92 filter expression.")
@click.option(
    "--scan",
    type=click.IntRange(min=1),
    default=SCAN_DEFAULT,
    show_default=True,
    metavar="N",
    help="Max number of messages of each queue to read.",
)
@as_json
@connected
def command(
    connection: Connection,
    topic: str | None,
    in_flight: bool,
    group: str | None,
    count: int,
    queue: QueueName | None,
    from_offset: int | None,
    at_time: int | None,
    key: str | None,
    msg_id: str | None,
    tag: str | None,
    sql: str | None,
    scan: int,
    as_json: bool,
) -> None:
    """Show messages of a topic without consuming them, oldest first.

    With --json, each message is one line, which 'send' accepts. With --in-flight, shows where the messages are, and
    when they become visible again; a topic includes its retries.
    """
    if in_flight:
        if any(option is not None for option in (from_offset, at_time, key, msg_id, tag, sql)):
            raise click.UsageError("--in-flight can only be combined with --group, --queue and --newest")
        show_in_flight(connection, topic, group, queue, count, as_json)
        return
    if topic is None or group is not None:
        raise click.UsageError("give a topic" if topic is None else "--group needs --in-flight")
    if from_offset is not None and at_time is not None:
        raise click.UsageError("give only one of --from-offset and --at-time")
    if tag is not None and sql is not None:
        raise click.UsageError("give only one of --tag and --sql")
    reader = _Reader(connection, topic, _expression(tag, sql), _matcher(key, msg_id))
    bounds = _choose(_bounds(connection, topic), topic, queue)
    complete = True
    found: list[Found] = []
    for entry in bounds:
        first = _first_offset(connection, topic, entry, from_offset, at_time)
        rows = (
            reader.read_newest(entry, count, scan) if first is None else reader.read_oldest(entry, first, count, scan)
        )
        found += rows.found
        complete = complete and rows.is_complete
    begins = from_offset is not None or at_time is not None
    chosen = sorted((heapq.nsmallest if begins else heapq.nlargest)(count, found, key=lambda f: f[:3]))
    _show(topic, chosen, as_json)
    if not complete:
        click.echo(f"read {scan} messages of each queue; set a larger --scan to read more", err=True)


@dataclass
class _Rows:
    found: list[Found]
    is_complete: bool


@dataclass(frozen=True)
class _Reader:
    """Reads queues of one topic through a filter."""

    connection: Connection
    topic: str
    expression: v2.FilterExpression
    matches: Matches | None

    def read_newest(self, entry: v1.QueueBounds, count: int, scan: int) -> _Rows:
        """Reads the newest ``count`` matching rows of a queue, among its newest ``scan`` rows."""
        stop = max(entry.min_offset, entry.max_offset - scan)
        until = entry.max_offset
        found: list[Found] = []
        window = max(count, _WINDOW_ROWS if self._filters else 1)
        while until > stop and len(found) < count:
            first = max(stop, until - window)
            found = [*self._read(entry, first, until), *found]
            until = first
        return _Rows(found[-count:], len(found) >= count or stop == entry.min_offset)

    def read_oldest(self, entry: v1.QueueBounds, first: int, count: int, scan: int) -> _Rows:
        """Reads the first ``count`` matching rows of a queue, among the ``scan`` rows from ``first``."""
        first = max(first, entry.min_offset)
        stop = min(entry.max_offset, first + scan)
        found = list(itertools.islice(self._read(entry, first, stop), count))
        return _Rows(found, len(found) >= count or stop == entry.max_offset)

    @property
    def _filters(self) -> bool:
        return self.matches is not None or self.expression.expression != "*"

    def _read(self, entry: v1.QueueBounds, first: int, until: int) -> Iterator[Found]:
        queue = v1.Queue(topic=self.topic, broker_name=entry.broker_name, queue_id=entry.queue_id)
        while first < until:
            pull = v1.QueuePull(queue=queue, offset=first, until_offset=until)
            request = v1.PullColumnsRequest(
                group=TOOLS_GROUP, queues=[pull], filter_expression=self.expression, max_rows=_WINDOW_ROWS
            )
            response = self.connection.columns("PullColumns", request)
            for batch in read_stream(response.arrow_ipc, PULLABLE_SCHEMA):
                yield from self._matching(entry, batch)
            if response.queues[0].next_offset <= first:
                return  # the queue ended or was trimmed meanwhile
            first = response.queues[0].next_offset

    def _matching(self, entry: v1.QueueBounds, batch: pa.RecordBatch) -> Iterator[Found]:
        if self.matches is not None:
            batch = batch.filter(self.matches(batch))
        times = batch.column("storeTimestamp").cast(pa.int64()).to_pylist()
        for number, (store_us, offset) in enumerate(zip(times, batch.column("queueOffset").to_pylist(), strict=True)):
            yield Found(store_us, (entry.broker_name, entry.queue_id), offset, batch.slice(number, 1))


def _expression(tag: str | None, sql: str | None) -> v2.FilterExpression:
    if sql is not None:
        return v2.FilterExpression(type=v2.FilterType.SQL, expression=sql)
    return v2.FilterExpression(type=v2.FilterType.TAG, expression="*" if tag is None else tag)


def _matcher(key: str | None, msg_id: str | None) -> Matches | None:
    """Makes a function that selects rows by key and id; None without both."""
    if key is None and msg_id is None:
        return None

    def matches(batch: pa.RecordBatch) -> pa.Array:
        mask = pa.repeat(True, batch.num_rows)
        if key is not None:
            mask = pa.array([key in (keys or ()) for keys in batch.column("keys").to_pylist()], pa.bool_())
        return mask if msg_id is None else pc.and_(mask, pc.equal(batch.column("msgId"), msg_id))

    return matches


def _bounds(connection: Connection, topic: str) -> Sequence[v1.QueueBounds]:
    request = v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=topic)])
    entry = connection.columns("QueryBounds", request).topics[0]
    if entry.status.code != v2.Code.OK:
        raise Refused(entry.status.message, v2.Code.Name(entry.status.code))
    bounds: Sequence[v1.QueueBounds] = entry.queues
    return bounds


def _choose(bounds: Iterable[v1.QueueBounds], topic: str, queue: QueueName | None) -> list[v1.QueueBounds]:
    if queue is None:
        return list(bounds)
    brokers = (None, "") if queue.broker_name is None else (queue.broker_name,)
    chosen = [b for b in bounds if b.queue_id == queue.queue_id and (not brokers[0] or b.broker_name in brokers)]
    if not chosen:
        name = queue.queue_id if queue.broker_name is None else f"{queue.broker_name}/{queue.queue_id}"
        raise Refused(f"topic {topic} has no queue {name}")
    return chosen


def _first_offset(
    connection: Connection, topic: str, entry: v1.QueueBounds, from_offset: int | None, at_time: int | None
) -> int | None:
    if at_time is None:
        return from_offset
    queue = v2.MessageQueue(topic=v2.Resource(name=topic), broker=v2.Broker(name=entry.broker_name), id=entry.queue_id)
    request = v2_service.QueryOffsetRequest(message_queue=queue, query_offset_policy=v2.QueryOffsetPolicy.TIMESTAMP)
    request.timestamp.FromMilliseconds(at_time)
    offset: int = connection.call(rpc.MESSAGING, "QueryOffset", request).offset
    return offset


def _show(topic: str, found: Sequence[Found], as_json: bool) -> None:
    messages = [
        {"topic": topic, "brokerName": broker_name, "queueId": queue_id, **make_json_rows(row)[0]}
        for _, (broker_name, queue_id), _, row in found
    ]
    if as_json:
        for message in messages:
            show_json(message)
    elif messages:
        show_table([_table_row(message) for message in messages], _COLUMNS)
    else:
        click.echo("no message found", err=True)


def _table_row(message: dict[str, Any]) -> dict[str, Any]:
    body = message["body"] if "body" in message else f"base64:{message['bodyBase64']}"
    if sys.stdout.isatty() and len(body) > _BODY_CHARACTERS:
        body = f"{body[:_BODY_CHARACTERS]}… ({len(body)} characters; --json prints all)"
    return {**message, "queue": f"{message['brokerName']}/{message['queueId']}", "body": body}
