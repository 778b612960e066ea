"""How a copy is cut into calls: none is too large, and each message is in one call, in order, with its queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client import MessageQueue, RequestRefused
from rmqpull_client.cli.copies import copier
from rmqpull_client.cli.copies.copier import Copier
from rmqpull_client.errors import RowsRefused
from rmqpull_client.loss import refuse_loss
from rmqpull_client.model import EVERYTHING, QueueRange
from rmqpull_client.transports.port import BrokerClient, QueueRows

FROM = [MessageQueue("orders", "a", queue_id) for queue_id in range(3)]
TO = [MessageQueue("copies", "b", queue_id) for queue_id in range(2)]
PLACES = {queue: TO[queue.queue_id % 2] for queue in FROM}
SIZES = st.lists(st.integers(0, 40), max_size=8)


class Servers:
    """The source, which has one step of rows, and the target, which notes its calls."""

    def __init__(self, sizes: Sequence[Sequence[int]]) -> None:
        self.sizes = sizes
        self.calls: list[list[dict[str, Any]]] = []
        self.refused: Mapping[int, str] = {}

    def read(self, *arguments: Any, **more: Any) -> Iterator[Sequence[QueueRows]]:
        yield [
            QueueRows(
                queue, [pa.record_batch({"body": [b"x" * size for size in sizes], "queueOffset": range(len(sizes))})]
            )
            for queue, sizes in zip(FROM, self.sizes, strict=True)
        ]

    def publish(self, topic: str, batch: pa.RecordBatch) -> None:
        if self.refused:
            raise RowsRefused("BAD", "", self.refused)
        self.calls.append(batch.to_pylist())


def copy(servers: Servers) -> list[tuple[dict[MessageQueue, int], int]]:
    """Copies everything. Returns what was kept after each call."""
    kept = list[tuple[dict[MessageQueue, int], int]]()
    client = cast(BrokerClient, servers)
    own = Copier(client, client, "copies", ["body"], PLACES, lambda offsets, count: kept.append((dict(offsets), count)))
    own.copy(
        [QueueRange(queue, 0, len(sizes)) for queue, sizes in zip(FROM, servers.sizes, strict=True)],
        EVERYTHING,
        refuse_loss,
    )
    return kept


@given(st.tuples(SIZES, SIZES, SIZES), st.integers(1, 5), st.integers(1, 60))
def test_calls_are_small_and_hold_each_message_once(sizes: Sequence[list[int]], row_max: int, byte_max: int) -> None:
    servers = Servers(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copier, "CALL_ROWS_MAX", row_max)
        patch.setattr(copier, "CALL_BYTES_MAX", byte_max)
        kept = copy(servers)
    for call in servers.calls:
        assert 1 <= len(call) <= row_max
        assert len(call) == 1 or sum(len(row["body"]) for row in call) <= byte_max
    for to in TO:
        sent = [len(row["body"]) for call in servers.calls for row in call if row["queueId"] == to.queue_id]
        assert sent == [size for queue, own in zip(FROM, sizes, strict=True) if PLACES[queue] == to for size in own]
    assert [count for _, count in kept] == [*map(len, servers.calls), 0]
    reached = {queue: offset for offsets, _ in kept[:-1] for queue, offset in offsets.items()}
    assert reached == {queue: len(own) for queue, own in zip(FROM, sizes, strict=True) if own}


def test_a_refused_message_is_named_by_its_queue_and_offset() -> None:
    servers = Servers([[1, 1], [1, 1, 1], []])
    servers.refused = {4: "too long", 3: "empty"}
    with pytest.raises(RequestRefused, match=r"^message orders/a/1 offset 1 was refused: empty$"):
        copy(servers)
