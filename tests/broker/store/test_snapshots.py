"""A snapshot that is cut anywhere, or changed, is refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import GroupConfig, LoggedMessage, MessageQueue
from rmqpull_broker.core.state.facts import GroupPut
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.core.state.stage_facts import HeldCall, StagedPart, StillStaged, TransactionId
from rmqpull_broker.store.queues.chunks import Location, Run, RunPart, RunParts, SavedChunk
from rmqpull_broker.store.queues.consume_queues import QueueIndex
from rmqpull_broker.store.queues.segment_marks import NewestTimes, SegmentMark, SplicedSegment
from rmqpull_broker.store.queues.staged_rows import StagedIndex
from rmqpull_broker.store.snapshots import _HEADER, DamagedSnapshot, Snapshot, decode_snapshot, encode_snapshot

FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))
SMALL = Snapshot(7, NewestTimes(3, 2, 1), 5, [GroupPut(GroupConfig("g"))], [], [], {}, [])


def make_part(position: int, row_count: int, begin: int = 0, size: int = 9) -> RunPart:
    return RunPart(
        LoggedMessage(1_000, position, 700, 0xFFFF_FFFF, begin + row_count + 1, 0x1FFF), begin, row_count, size
    )


def make_run(first_offset: int, *parts: RunPart, store_ms: int = 5, host: str = "host") -> Run:
    row_count, size = (sum(numbers) for numbers in zip(*((part.row_count, part.size) for part in parts), strict=True))
    return Run(first_offset, row_count, store_ms, host, LogRange(1_000, 1_016, 9_000), RunParts(parts), size)


SAVED = SavedChunk(0, 4, 3, 5, LogRange(0, 16, 900), Location(2, 64, 512, 0xFFFF_FFFE), 44)
PARTS = make_part(2_000, 3), make_part(2_704, 1, begin=3, size=0), make_part(4_000, 2)
RUNS: list[SavedChunk | Run] = [
    make_run(4, *PARTS),
    SAVED._replace(first_offset=10, size=None),
    make_run(14, PARTS[0]),
    make_run(17, PARTS[1], host="other:1"),  # the same commit, to another broker's address
    make_run(18, PARTS[2], store_ms=6),
    make_run(20, PARTS[2], store_ms=6)._replace(written=LogRange(2_000, 2_016, 9_000)),
]
STAGED = StagedIndex(
    "a stage",
    LogRange(1_000, 1_016, 4_000),
    8,
    3,
    [(FIRST, PARTS[0]), (FIRST, PARTS[1]), (SECOND, PARTS[2])],
    {5: [(FIRST, PARTS[0])], 4: [(SECOND, PARTS[1]), (FIRST, PARTS[2])]},
)
FULL = SMALL._replace(
    facts=[StillStaged(TransactionId("q", 1), "a stage", (HeldCall(3, 5, 40, 0, 2),), (StagedPart(FIRST, 5, 30, 40),))],
    queues=[
        QueueIndex(FIRST, 2, 22, [SAVED, *RUNS]),
        QueueIndex(SECOND, 0, 0, []),
        QueueIndex(SECOND, 4, 10, RUNS[:1]),
    ],
    marks=[SegmentMark(0, 1, 1, {}), SegmentMark(1_000, 5, 4, {FIRST: 4, SECOND: 9})],
    spliced={0: SplicedSegment(6, 5, {FIRST: 22}), 1_000: SplicedSegment(7, 7, {})},
    staged=[STAGED, StagedIndex("b", LogRange(0, 16, 32), 9, 0, [], {7: [(FIRST, PARTS[0])]})],
)
SNAPSHOTS = {"small": SMALL, "full": FULL}


@pytest.mark.parametrize("kind", SNAPSHOTS)
def test_it_is_read_as_it_was_written(kind: str) -> None:
    assert decode_snapshot(memoryview(encode_snapshot(SNAPSHOTS[kind]))) == SNAPSHOTS[kind]


@pytest.mark.parametrize("kind", SNAPSHOTS)
def test_it_is_refused_wherever_it_is_cut(kind: str) -> None:
    data = encode_snapshot(SNAPSHOTS[kind])
    for size in range(len(data)):
        reason = "its header is not complete" if size < _HEADER.size else "it fails its checksum"
        with pytest.raises(DamagedSnapshot, match=reason):
            decode_snapshot(memoryview(data[:size]))


@pytest.mark.parametrize("kind", SNAPSHOTS)
def test_it_is_refused_whichever_byte_is_changed(kind: str) -> None:
    data = encode_snapshot(SNAPSHOTS[kind])
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(memoryview(changed))


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([1, 2]), st.sampled_from(["a", "b"]), st.integers(1, 3)), max_size=9
    )
)
def test_neighbouring_runs_of_one_commit_are_read_as_one_with_the_same_parts(
    kinds: Sequence[tuple[bool, int, str, int]],
) -> None:
    chunks, offset = list[SavedChunk | Run](), 0
    for is_saved, store_ms, host, count in kinds:
        parts = [make_part(1_000 * offset + 8 * at, 2) for at in range(count)]
        run = make_run(offset, *parts, store_ms=store_ms, host=host)
        chunks.append(SAVED._replace(first_offset=offset, row_count=2 * count) if is_saved else run)
        offset += 2 * count
    snapshot = SMALL._replace(queues=[QueueIndex(FIRST, 0, offset, chunks)])
    ((_, _, unsaved_from, found),) = decode_snapshot(memoryview(encode_snapshot(snapshot))).queues
    assert unsaved_from == offset
    assert list_parts(found) == list_parts(chunks)
    for run in (chunk for chunk in found if isinstance(chunk, Run)):
        assert list(run.parts.ends) == list(accumulate(part.row_count for part in run.parts))
        assert (run.row_count, run.byte_count) == (run.parts.ends[-1], sum(part.size for part in run.parts))


def list_parts(chunks: Sequence[SavedChunk | Run]) -> list[object]:
    """Saved chunks, and each part of a run with its offset and what its rows get."""
    found: list[object] = []
    for chunk in chunks:
        if isinstance(chunk, SavedChunk):
            found.append(chunk)
            continue
        begins = accumulate((part.row_count for part in chunk.parts), initial=chunk.first_offset)
        found += [(begin, part, *chunk[2:5]) for begin, part in zip(begins, chunk.parts, strict=False)]
    return found


def test_its_header_has_stages_and_splices_as_documented() -> None:
    data = encode_snapshot(FULL)
    *_, header_length, chunk_count = _HEADER.unpack_from(data)
    header = json.loads(data[_HEADER.size : _HEADER.size + header_length])
    assert chunk_count == 1 + (3 + 1 + 4) + 3
    assert header["hosts"] == ["host", "other:1"]
    assert header["spliced"] == [[0, 6, 5, [[["orders", "broker-a", 0], 22]]], [1_000, 7, 7, []]]
    assert [entry[0] for entry in header["staged"]] == ["a stage", "b"]
    assert [entry[3] for entry in header["queues"]] == [9, 0, 3]
