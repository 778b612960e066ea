"""The bytes of messages in columns, of staged calls and of commits in a record of the log."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import GroupConfig, LoggedMessage
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, GroupPut, QueuePart
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.core.state.stage_facts import (
    ColumnsStaged,
    CommitRecord,
    HeldCall,
    Splice,
    StagedCallStored,
    StagedPart,
    StagesCommitted,
    StagesEnded,
    StillStaged,
    TransactionId,
)
from rmqpull_broker.store.log import logged_columns, record
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.segments import segment_name
from rmqpull_broker.store.log.small_facts import BY_FACT, BY_KIND
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.written_messages import QUEUES, lower_part_limits, make_call, make_rows

FIRST, SECOND, _ = QUEUES
QUERY = TransactionId("query", 1)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    lower_part_limits(monkeypatch, 2)


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def draw_entry(kind: int, header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<IIQ", kind, len(header), len(data)) + pad(header) + pad(data)


def draw_record(synced_until: int, *entries: bytes) -> bytes:
    payload = b"".join(entries)
    checked = struct.pack("<QQ", len(payload), synced_until) + payload
    return b"RMQR" + struct.pack("<I", zlib.crc32(checked)) + checked


def make_stored(*counts: int, first_offset: int = 5) -> ColumnsStored:
    """So many messages for each queue, with offsets that go on from queue to queue."""
    bodies = [b"body %d" % number for number in range(sum(counts))]
    batch = columns.place_rows(make_rows(bodies), first_offset, 7_000, "host")
    parts, begin = list[QueuePart](), first_offset
    for queue, count in zip(QUEUES, counts, strict=False):
        parts.append(QueuePart(queue, begin, count))
        begin += count
    return ColumnsStored(tuple(parts), batch)


def leave_out_nulls(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select([name for name in rows.schema.names if rows.column(name).null_count < rows.num_rows])


def list_bits(rows: pa.RecordBatch) -> int:
    names = leave_out_nulls(rows).schema.names
    return sum(1 << number for number, name in enumerate(columns.UNPLACED_SCHEMA.names) if name in names)


def test_the_layout_of_messages_in_columns_is_as_drawn() -> None:
    stored, call = make_stored(1, 2), make_call("a", 3, [(FIRST, [b"x", b"y"]), (SECOND, [b"z"])], written_ms=9)
    small, large = (stored.batch.select(columns.UNPLACED_SCHEMA.names).slice(*at) for at in ((0, 1), (1, 2)))
    entries = []
    for kind, messages, parts in (
        (26, (small, large), '[["orders","broker-a",0],5,1,7000,"host"],[["orders","broker-a",1],6,2,7000,"host"]'),
        (
            27,
            (call.batch.slice(0, 2), call.batch.slice(2, 1)),
            '[["orders","broker-a",0],2,2,2],[["orders","broker-a",1],1,1,1]',
        ),
    ):
        written = [bytes(leave_out_nulls(message).serialize()) for message in messages]
        forms = json.dumps(
            [
                [rows.num_rows, len(data), zlib.crc32(data), list_bits(rows)]
                for rows, data in zip(messages, written, strict=True)
            ],
            separators=(",", ":"),
        )
        of_call = '["query",1],"a",3,0,9,' if kind == 27 else ""
        entries.append(draw_entry(kind, f"[{of_call}[{parts}],{forms}]".encode(), b"".join(map(pad, written))))
    placed = record.encode_placed_record([stored, call], 77, 160, 1_000)
    assert b"".join(map(bytes, placed.parts)) == draw_record(77, *entries)
    assert placed.size == 24 + sum(map(len, entries))
    first, second = placed.facts
    assert isinstance(first, ColumnsStored)
    assert isinstance(second, ColumnsStaged)
    message = bytes(leave_out_nulls(small).serialize())
    data_begin = 1_000 + 24 + entries[0].index(pad(message))
    assert first.messages[0][:3] == (160, data_begin, len(message))
    assert second.messages[0].position > 1_000 + 24 + len(entries[0])
    assert [message.position % 8 for message in first.messages + second.messages] == [0] * 4


@pytest.mark.parametrize(
    ("fact", "kind", "header"),
    [
        (
            StillStaged(QUERY, "a", (HeldCall(3, 5, 40, 600, 2),), (StagedPart(FIRST, 5, 30, 40),)),
            28,
            '[["query",1],"a",[[3,5,40,600,2]],[[["orders","broker-a",0],5,30,40]]]',
        ),
        (
            StagesCommitted(QUERY, ("a", "b"), None, (Splice(FIRST, SECOND, 7, 5, 30, 1_000, "host"),)),
            16,
            '[["query",1],["a","b"],null,[[["orders","broker-a",0],["orders","broker-a",1],7,5,30,1000,"host"]]]',
        ),
        (
            StagesCommitted(TransactionId("w", None), (), CommitRecord(b"\x01\xff", "orders", 3, b"\x10")),
            16,
            '[["w",null],[],["01ff","orders",3,"10"],[]]',
        ),
        (StagesEnded(("a", "b")), 18, '["a","b"]'),
        (StagesEnded(("a",), "retentionBytes"), 18, '{"stages":["a"],"limit":"retentionBytes"}'),
        (StagedCallStored("a", 3), 17, '["a",3]'),
    ],
)
def test_the_layout_of_stages_is_as_drawn(fact: Fact, kind: int, header: str) -> None:
    data = draw_record(77, draw_entry(kind, header.encode()))
    assert record.encode_record([fact], 77) == data
    assert b"".join(map(bytes, record.encode_placed_record([fact], 77, 0, 0).parts)) == data
    frame = record.read_frame(memoryview(data), 0)
    assert frame is not None
    assert list(record.decode_payload(frame.payload)) == [fact]


@pytest.mark.parametrize(
    ("kind", "form", "fact"),
    [
        (16, [["query", 1], ["a"]], StagesCommitted(QUERY, ("a",))),
        (16, [["query", 1], ["a"], None], StagesCommitted(QUERY, ("a",))),
        (
            16,
            [["query", 1], ["a"], ["01", "orders", 3, ""]],
            StagesCommitted(QUERY, ("a",), CommitRecord(b"\x01", "orders", 3, b"")),
        ),
        (18, ["a", "b"], StagesEnded(("a", "b"))),
        (18, [], StagesEnded(())),
    ],
)
def test_commits_and_ends_of_older_releases_are_read(kind: int, form: Any, fact: Fact) -> None:
    assert BY_KIND[kind].from_json(form) == fact


@given(st.from_type(StillStaged) | st.from_type(StagesCommitted) | st.from_type(StagesEnded))
def test_json_gives_back_stages(fact: Fact) -> None:
    codec = BY_FACT[type(fact)]
    assert codec.from_json(json.loads(json.dumps(codec.to_json(fact)))) == fact


def read_placed(disk: MemoryFileSystem, message: LoggedMessage) -> bytes:
    at = message.position - message.segment
    return bytes(disk.files[segment_name(message.segment)][at : at + message.length])


FACTS = st.sampled_from(
    [
        GroupPut(GroupConfig("é")),
        make_stored(1),
        make_stored(1, 2, 1),
        make_stored(3),
        make_call("a", 0, [(FIRST, [b"x"])]),
        make_call("b", 1, [(FIRST, [b"x"]), (SECOND, [b"y", b"zzzzz"]), (FIRST, [b"u"])]),
        StagesCommitted(QUERY, ("a",), None, (Splice(FIRST, SECOND, 7, 5, 30, 1_000, "host"),)),
        StagesEnded(("a",), "retentionBytes"),
    ]
)


@given(st.lists(st.lists(FACTS, max_size=4), max_size=4))
def test_a_log_says_where_it_has_the_messages_now_and_after_a_restart(batches: list[list[Fact]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        lower_part_limits(patch, 2)
        disk = MemoryFileSystem()
        log = CommitLog(disk, segment_bytes=2_000)
        log.recover(lambda facts, written: None)
        kept = [each for batch in batches for each in log.append([batch, batch])]
        log.close()
        replayed: list[tuple[list[Fact], LogRange]] = []
        CommitLog(disk, segment_bytes=2_000).recover(lambda facts, written: replayed.append((facts, written)))
        kept = [each for each in kept if each.facts]
        assert [facts for _, facts in kept] == [facts for facts, _ in replayed]
        columnar = (ColumnsStored, ColumnsStaged)
        written = [fact for _, facts in kept for fact in facts if isinstance(fact, columnar)]
        read = [fact for facts, _ in replayed for fact in facts if isinstance(fact, columnar)]
        assert [fact.messages for fact in written] == [fact.messages for fact in read]
        for fact in written:
            parts = [
                logged_columns.add_null_columns(logged_columns.read_message(read_placed(disk, message), message))
                for message in fact.messages
            ]
            assert not parts or columns.concat_batches(parts) == fact.batch.select(columns.UNPLACED_SCHEMA.names)


def test_a_stage_of_one_row_is_placed_too_but_a_batch_of_small_parts_is_not() -> None:
    facts: list[Fact] = [make_call("a", 0, [(FIRST, [b"x"])]), make_stored(1, 1), make_stored(2)]
    placed = record.encode_placed_record(facts, 0, 0, 0).facts
    assert [len(fact.messages) for fact in placed if isinstance(fact, (ColumnsStored, ColumnsStaged))] == [1, 0, 1]


def test_rows_in_the_queue_of_a_stage_are_never_referred_to() -> None:
    """Retention does not trim it."""
    own = make_stored(3)
    part = own.parts[0]._replace(queue=FIRST._replace(topic=f"{STAGE_PREFIX}a"))
    (placed,) = record.encode_placed_record([ColumnsStored((part,), own.batch)], 0, 0, 0).facts
    assert isinstance(placed, ColumnsStored)
    assert placed.messages == ()
