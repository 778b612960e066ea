"""The messages that the sink has written, read from the broker's own log and not through a query that may be wrong."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Set
from pathlib import Path

from rmqpull_broker.core.messages.columns import to_rows
from rmqpull_broker.core.model import BodyEncoding, MessageQueue, StoredMessage
from rmqpull_broker.core.state.stages import StageFact, Stages
from rmqpull_broker.store.inspection import dump
from rmqpull_broker.store.queues.repair import LoggedQueues
from rmqpull_broker.store.vfs import OsFileSystem
from soak.ledger import digest_of
from soak.output import Row
from soak.servers import Copied

_EITHER_HEADER = 47
"""Makes zlib accept its own header and gzip's."""


def rows(data: Path, topics: Set[str]) -> Iterator[Copied]:
    """Yields all messages of the topics, each queue in order. ``file`` is the queue of the copy."""
    for queue, stored in _stored(data, topics):
        yield _copied(queue, stored)


def open_stages(data: Path) -> list[str]:
    """Returns the stages that are not committed, or whose commit is not stored completely."""
    stages = Stages()
    for record in dump(OsFileSystem(str(data), is_read_only=True)):
        for fact in record.facts:
            if isinstance(fact, StageFact):
                stages.apply(fact)
    return list(stages.all())


def _stored(data: Path, topics: Set[str]) -> Iterator[tuple[MessageQueue, StoredMessage]]:
    queues = LoggedQueues()
    for record in dump(OsFileSystem(str(data), is_read_only=True)):
        for queue, _, rows in (found for fact in record.facts for found in queues.apply(fact)):
            if queue.topic in topics:
                yield from ((queue, stored) for stored in to_rows([rows]))


def _copied(queue: MessageQueue, stored: StoredMessage) -> Copied:
    message, said = stored.message, dict(stored.message.properties)
    is_packed = message.body_encoding in (BodyEncoding.GZIP, BodyEncoding.ZLIB)
    row = Row(
        batch_id=0,
        file=f"{queue.topic}/{queue.queue_id}",
        topic=said["topic"],
        broker_name=said["brokerName"],
        queue_id=int(said["queueId"]),
        offset=int(said["queueOffset"]),
        msg_id=said["msgId"],
        key=message.keys[0],
        tag=message.tags or "",
        digest=digest_of(zlib.decompress(message.body, _EITHER_HEADER) if is_packed else message.body),
    )
    return Copied(row, said.get("rmqpullId", ""))
