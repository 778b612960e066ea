"""The bytes of the commit log."""

import json
import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import (
    CustomizedBackoff,
    ExponentialBackoff,
    GroupConfig,
    Message,
    MessageQueue,
    StoredMessage,
)
from rmqpull_broker.core.state.facts import (
    ClockRead,
    ColumnsStored,
    Fact,
    GroupDeleted,
    GroupPut,
    OffsetsCommitted,
    OffsetsReset,
    Popped,
    PoppedInOrder,
    QueuePart,
    QueuesTrimmed,
    RequestModeSet,
    ResetsAnswered,
    RowsLost,
    RowsStored,
    StillDelayed,
    StillReset,
    StillWaiting,
    TopicDeleted,
    TopicPut,
    WaitingEnded,
)
from rmqpull_broker.core.state.stage_facts import (
    CallStaged,
    StagedCallStored,
    StagesCommitted,
    StagesEnded,
    TransactionId,
)
from rmqpull_broker.store.log import record, small_facts
from rmqpull_broker.store.log.rows import LoggedRows
from rmqpull_broker.store.log.small_facts import BY_FACT

QUEUE = MessageQueue("orders", "broker-a", 0)
ROWS = st.lists(st.from_type(StoredMessage), min_size=1, max_size=3)
RETRY_POLICIES = (
    st.none()
    | st.builds(ExponentialBackoff, multiplier=st.floats(allow_nan=False, allow_infinity=False))
    | st.from_type(CustomizedBackoff)
)
FACTS = st.one_of(
    st.from_type(TopicPut),
    st.builds(GroupPut, st.builds(GroupConfig, retry_policy=RETRY_POLICIES)),
    st.from_type(GroupDeleted),
    st.from_type(TopicDeleted),
    st.from_type(OffsetsReset),
    st.from_type(ResetsAnswered),
    st.from_type(WaitingEnded),
    st.from_type(StillWaiting),
    st.from_type(StillDelayed),
    st.from_type(StillReset),
    st.from_type(ClockRead),
    st.builds(PoppedInOrder, group=st.text(min_size=1)),
    st.builds(Popped, offsets=st.lists(st.integers(), min_size=1).map(tuple)),
    st.from_type(RequestModeSet),
    st.from_type(QueuesTrimmed),
    st.from_type(OffsetsCommitted),
    st.from_type(RowsLost),
    st.from_type(CallStaged),
    st.from_type(StagesCommitted),
    st.from_type(StagedCallStored),
    st.from_type(StagesEnded),
    st.builds(RowsStored, rows=ROWS.map(tuple)),
    st.builds(ColumnsStored, batch=ROWS.map(columns.from_rows)),
)


def decoded(data: bytes, start: int = 0) -> list[Fact]:
    frame = record.read_frame(memoryview(data), start)
    assert frame is not None
    return list(record.decode_payload(frame.payload))


@given(st.lists(FACTS, max_size=4), st.integers(0, (1 << 63) - 1))
def test_a_record_gives_back_its_facts(facts: list[Fact], synced_until: int) -> None:
    data = record.encode_record(facts, synced_until)
    frame = record.read_frame(memoryview(data), 0)
    assert frame is not None
    assert (frame.size, frame.synced_until) == (len(data), synced_until)
    assert list(record.decode_payload(frame.payload)) == facts
    assert len(data) % 8 == 0


def test_a_commit_that_an_older_release_wrote_has_no_record() -> None:
    codec = BY_FACT[StagesCommitted]
    assert codec.from_json([["query", 7], ["a"]]) == StagesCommitted(TransactionId("query", 7), ("a",))


MESSAGE = Message(b"a body of some length", "ID", "red", ("key",), {"name": "value"})
STORED = StoredMessage(MESSAGE, 3, 5, "host")
RECORDS = {
    "rows": record.encode_record([RowsStored(QUEUE, (STORED,))], 16),
    "columns": record.encode_record([ColumnsStored((QueuePart(QUEUE, 3, 1),), columns.from_rows([STORED]))], 16),
    "offsets": record.encode_record([OffsetsCommitted("readers", ((QUEUE, 5),)), GroupPut(GroupConfig("é"))], 16),
    "nothing": record.encode_record([], 16),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_cut_anywhere_is_none(kind: str) -> None:
    data = RECORDS[kind]
    assert record.read_frame(memoryview(data), 0) is not None
    assert [size for size in range(len(data)) if record.read_frame(memoryview(data[:size]), 0) is not None] == []


@pytest.mark.parametrize("kind", RECORDS)
def test_every_flipped_bit_is_detected(kind: str) -> None:
    intact, behind = RECORDS[kind], bytes(4_096)
    data = bytearray(intact + behind)
    unnoticed = []
    for bit in range(8 * len(intact)):
        data[bit // 8] ^= 1 << bit % 8
        if record.read_frame(memoryview(data), 0) is not None:
            unnoticed.append(bit)
        data[bit // 8] ^= 1 << bit % 8
    assert unnoticed == []


def test_a_record_is_found_where_it_begins_and_nowhere_else() -> None:
    data = RECORDS["rows"] + RECORDS["columns"] + RECORDS["offsets"]
    starts = [start for start in range(len(data)) if record.read_frame(memoryview(data), start) is not None]
    assert starts == [0, len(RECORDS["rows"]), len(RECORDS["rows"]) + len(RECORDS["columns"])]


def test_zeros_are_no_record() -> None:
    assert record.read_frame(memoryview(bytes(64)), 0) is None


@pytest.mark.proves("Files")
def test_the_layout_is_as_drawn() -> None:
    payload = struct.pack("<IIQ", 8, 3, 0) + b'"g"' + bytes(5)
    checked = struct.pack("<QQ", len(payload), 77) + payload
    data = b"RMQR" + struct.pack("<I", zlib.crc32(checked)) + checked
    assert record.encode_record([GroupDeleted("g")], 77) == data
    assert record.encode_segment_header() == b"RMQPLOG\0" + struct.pack("<II", 7, 0)
    assert (record.RECORD_HEADER_BYTES, record.SEGMENT_HEADER_BYTES) == (24, 16)


def test_a_call_of_a_stage_that_was_kept_without_its_size_is_still_read() -> None:
    header = b'[["query",7],"stage",3,20,[[["orders","broker-a",1],5]],600000]'
    assert small_facts.BY_KIND[15].from_json(json.loads(header)) == CallStaged(
        TransactionId("query", 7), "stage", 3, 20, ((MessageQueue("orders", "broker-a", 1), 5),), 600_000, byte_count=0
    )


def test_columns_are_aligned_and_do_not_keep_what_they_were_read_from() -> None:
    data = pa.py_buffer(record.encode_segment_header() + RECORDS["columns"])
    frame = record.read_frame(memoryview(data), record.SEGMENT_HEADER_BYTES)
    assert frame is not None
    (stored,) = record.decode_payload(frame.payload)
    assert isinstance(stored, ColumnsStored)
    buffers = [buffer for column in stored.batch.columns for buffer in column.buffers() if buffer and buffer.size]
    assert not any(data.address <= buffer.address < data.address + data.size for buffer in buffers)
    assert {buffer.address % 8 for buffer in buffers} == {0}


@given(st.lists(FACTS, max_size=2))
def test_a_record_of_one_send_differs_from_all_others(facts: list[Fact]) -> None:
    frame = record.read_frame(memoryview(record.encode_record(facts, 0)), 0)
    assert frame is not None
    lone = record.decode_lone_rows(frame.payload)
    if len(facts) == 1 and isinstance(facts[0], RowsStored):
        assert lone is not None
        assert LoggedRows(*lone) == facts[0]
    else:
        assert lone is None


@pytest.mark.parametrize("length", range(1, 17))
def test_a_record_of_one_send_is_found_whatever_its_padding(length: int) -> None:
    stored = RowsStored(MessageQueue("t" * length, "b", 0), (STORED,))
    frame = record.read_frame(memoryview(record.encode_record([stored], 0)), 0)
    assert frame is not None
    lone = record.decode_lone_rows(frame.payload)
    assert lone is not None
    assert LoggedRows(*lone) == stored


def test_a_segment_of_this_format_passes() -> None:
    record.check_segment_header(memoryview(record.encode_segment_header() + b"more"))


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"RMQPLOG\0" + struct.pack("<II", 3, 0), "its format version is 3; this release reads versions 1, 2, 4 and 7"),
        (b"RMQPLOG\0" + struct.pack("<II", 0, 0), "its format version is 0"),
        (b"SQLite format 3\0", "it begins with b'SQLite f'"),
        (b"RMQPLOG\0", "8 bytes"),
    ],
)
def test_a_segment_of_another_format_is_refused(header: bytes, reason: str) -> None:
    with pytest.raises(record.UnknownFormat) as refusal:
        record.check_segment_header(memoryview(header))
    assert reason in str(refusal.value)


def test_a_fact_of_a_later_release_is_refused() -> None:
    payload = struct.pack("<IIQ", 99, 2, 0) + b"[]" + bytes(6)
    with pytest.raises(record.UnknownFormat, match="unknown kind 99"):
        list(record.decode_payload(memoryview(payload)))
