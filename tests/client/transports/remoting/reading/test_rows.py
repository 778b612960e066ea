"""What was pulled becomes rows by queue, and what is missing in it becomes losses."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from rmqpull_client.model import EVERYTHING, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.port import QueueRows
from rmqpull_client.transports.remoting.reading.pull_plan import QueuePlan, SpanPiece
from rmqpull_client.transports.remoting.reading.rows import QUEUE_GONE, Decoded, decode_pieces
from rmqpull_proto.columns import BODY_ENCODINGS
from tests.harness.recorded_messages import CLIENTS, read_recorded
from tests.harness.stored_records import StoredRecord

PLANS = [QueuePlan(QueueRange(MessageQueue("orders", "broker-a", number), 0, 1_000), 32) for number in range(3)]
A, B, C = (plan.queue for plan in PLANS)


def pulled(number: int, first: int, until: int, offsets: Iterable[int], **fields: Any) -> SpanPiece:
    """What a pull brought: records of a queue, within a buffer that has more."""
    body = b"".join(StoredRecord(b"%d" % at, queue_offset=at, queue_id=number, **fields).encode() for at in offsets)
    buffer = memoryview(b"header" + body + b"next")
    return SpanPiece(PLANS[number], first, until, until - first, len(body), (buffer, 6, 6 + len(body)))


def lost(number: int, first: int, until: int, why: str = "deleted") -> SpanPiece:
    return SpanPiece(PLANS[number], first, until, loss=why)


def decode(*pieces: SpanPiece, message_filter: MessageFilter = EVERYTHING) -> Decoded:
    return decode_pieces(pieces, ["queueOffset", "body"], message_filter)


def offsets(rows: Sequence[QueueRows]) -> dict[MessageQueue, list[int]]:
    return {
        entry.queue: [at for batch in entry.batches for at in batch.column("queueOffset").to_pylist()] for entry in rows
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_the_bytes_of_clients_in_other_languages_become_their_rows(client: str) -> None:
    """Each recorded response is decoded as it came from a real broker."""
    for recorded in read_recorded(client):
        names = list(recorded.rows[0])
        end = len(recorded.rows)
        piece = SpanPiece(PLANS[0], 0, end, end, len(recorded.body), (memoryview(recorded.body), 0, len(recorded.body)))
        (entry,) = decode_pieces([piece], [*names, "bodyEncoding"], EVERYTHING).rows
        found = [row for batch in entry.batches for row in batch.to_pylist()]
        for row in found:
            row["properties"] = dict(row["properties"])
            row["bornTimestamp"] = round(row["bornTimestamp"].timestamp() * 1000)
            if row.pop("bodyEncoding") != BODY_ENCODINGS["IDENTITY"]:
                row["body"] = zlib.decompress(row["body"], wbits=47)  # zlib or gzip
        assert found == recorded.rows


def test_pieces_of_several_queues_become_one_batch_each() -> None:
    decoded = decode(
        pulled(0, 0, 3, range(3)), pulled(1, 7, 9, range(7, 9)), pulled(0, 3, 5, range(3, 5)), pulled(2, 4, 5, [4])
    )
    assert offsets(decoded.rows) == {A: [0, 1, 2, 3, 4], B: [7, 8], C: [4]}
    assert [len(entry.batches) for entry in decoded.rows] == [1, 1, 1]
    assert [*decoded.gaps, *decoded.losses] == []
    assert decoded.damages == []


def test_rows_outside_of_a_piece_are_left_to_others() -> None:
    assert offsets(decode(pulled(0, 2, 4, range(6))).rows) == {A: [2, 3]}


@pytest.mark.parametrize(
    ("present", "gaps"),
    [([0, 1, 2, 3, 4], []), ([1, 2, 4], [(0, 1), (3, 4)]), ([0], [(1, 5)]), ([], [(0, 5)]), ([4, 0, 1, 2, 3], [])],
)
def test_missing_offsets_are_gaps(present: list[int], gaps: list[tuple[int, int]]) -> None:
    decoded = decode(pulled(1, 9, 10, [9]), pulled(0, 0, 5, present))
    assert [(gap.from_offset, gap.until_offset) for gap in decoded.gaps] == gaps
    assert all("of queue orders/broker-a/0" in gap.text for gap in decoded.gaps)
    assert decode(pulled(0, 0, 5, present), message_filter=MessageFilter("n > 1", "SQL92")).gaps == []


def test_losses_that_follow_each_other_are_one() -> None:
    decoded = decode(lost(0, 0, 32), lost(0, 32, 50, "something else"), lost(1, 5, 6), lost(0, 60, 70))
    assert [loss[:3] for loss in decoded.losses] == [(A, 0, 50), (A, 60, 70), (B, 5, 6)]
    assert decoded.losses[0].text == "50 messages of queue orders/broker-a/0 in [0, 50) are lost: deleted."


def test_a_queue_that_does_not_exist_is_lost_as_a_whole() -> None:
    decoded = decode(lost(0, 0, 32, QUEUE_GONE), lost(0, 32, 900, QUEUE_GONE))
    assert [loss.text for loss in decoded.losses] == [
        "Queue orders/broker-a/0 no longer exists, or its topic was created again. Offsets [0, 900) had not been read."
    ]


def test_a_queue_ends_before_a_damaged_record() -> None:
    good = pulled(0, 0, 3, range(3))
    piece = pulled(0, 3, 8, range(3, 8))
    buffer, start, end = piece.content
    data = bytearray(buffer)
    size = (end - start) // 5
    data[start + 2 * size + 84 : start + 2 * size + 88] = b"\x7f\xff\xff\xff"
    piece.content = (memoryview(bytes(data)), start, end)
    later = pulled(0, 8, 10, range(8, 10))
    decoded = decode(good, piece, later, pulled(1, 0, 2, range(2)))
    assert offsets(decoded.rows) == {A: [0, 1, 2, 3, 4], B: [0, 1]}
    [damage] = decoded.damages
    assert damage.loss.text.startswith("The message at offset 5 of queue orders/broker-a/0 is damaged: its lengths")
    assert damage.loss[:3] == (A, 5, 6)
    assert (damage.rest, damage.later) == (QueueRange(A, 6, 8), [later])
    assert decoded.gaps == []


def test_bytes_that_are_no_record_are_damaged() -> None:
    piece = SpanPiece(PLANS[0], 0, 4, 4, 300, (memoryview(b"\x00" * 300), 0, 300))
    [damage] = decode(piece).damages
    assert (damage.loss[:3], damage.rest) == ((A, 0, 1), QueueRange(A, 1, 4))


def test_the_client_drops_other_tags_with_the_same_hash() -> None:
    pieces = [pulled(0, 0, 2, [0, 1], properties={"TAGS": "paid"}), pulled(1, 0, 1, [0], properties={"TAGS": "Pzjd"})]
    decoded = decode_pieces(pieces, ["queueOffset"], MessageFilter("paid"))
    assert offsets(decoded.rows) == {A: [0, 1]}
    assert decoded.rows[0].batches[0].schema.names == ["queueOffset", "tags"]
