"""Finding stored messages in the bodies of pull responses (rules 4.7)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import DamagedRecord, RecordTable, locate_records
from tests.harness.stored_records import StoredRecord, join_bodies

LONG_TOPIC = "t" * 200


def record(offset: int = 0, **fields: object) -> bytes:
    return StoredRecord(queue_offset=offset, **fields).encode()  # type: ignore[arg-type]


def locate(*bodies: list[bytes]) -> RecordTable:
    return locate_records(*join_bodies(bodies))


@pytest.mark.parametrize("body_count", [1, 47, 49, 300])
def test_records_come_in_order_of_their_bodies(body_count: int) -> None:
    """Few bodies are walked one by one, many together; some have no record, and some many."""
    counts = [random.Random(number).choice((0, 1, 2, 32)) for number in range(body_count)]
    counts[-1] = 5
    offsets = iter(range(sum(counts)))
    bodies = [
        [record(next(offsets), body=b"x" * (index % 7)) for _ in range(count)] for index, count in enumerate(counts)
    ]
    table = locate(*bodies)
    assert table.queue_offsets.tolist() == list(range(sum(counts)))
    assert table.body_indexes.tolist() == np.repeat(np.arange(body_count), counts).tolist()
    assert table.damaged == ()
    assert table.sizes.tolist() == [len(each) for body in bodies for each in body]


def test_nothing_is_found_in_nothing() -> None:
    assert len(locate_records(b"", np.zeros(0, np.int64), np.zeros(0, np.int64))) == 0
    assert len(locate([], [])) == 0
    assert decode_columns(locate([])).num_rows == 0


HOSTS = [("10.1.2.3", 5555), ("2001:db8::1", 5555)]


@pytest.mark.parametrize("topic", ["orders", "t" * 127, LONG_TOPIC])
@pytest.mark.parametrize("store_host", HOSTS)
@pytest.mark.parametrize("born_host", HOSTS)
def test_all_layouts_of_records(topic: str, born_host: tuple[str, int], store_host: tuple[str, int]) -> None:
    """Records of every layout stand beside each other in the same response."""
    plain = record(1, properties={"a": "b"})
    other = record(2, topic=topic, born_host=born_host, store_host=store_host, body=b"other", reconsume_times=3)
    rows = decode_columns(locate([plain, other, plain])).to_pylist()
    assert [row["body"] for row in rows] == [b"body", b"other", b"body"]
    assert [row["reconsumeTimes"] for row in rows] == [0, 3, 0]
    assert [row["properties"] for row in rows] == [[("a", "b")], [], [("a", "b")]]


def replace(at: int, new: bytes) -> Callable[[bytes], bytes]:
    return lambda good: good[:at] + new + good[at + len(new) :]


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], int | None, str]] = {
    "magic": (replace(4, b"\xcb\xd4\x31\x94"), None, r"its magic is 0xCBD43194, expected 0xDAA320A7 or 0xDAA320AB"),
    "magic of a long topic": (replace(4, b"\xda\xa3\x20\xab"), 7, "do not add up to its size of"),
    "size too small": (replace(0, b"\0\0\0\x5a"), 7, r"its size is 90 bytes, expected 91 to \d+"),
    "size too large": (replace(0, b"\0\1\0\0"), 7, r"its size is 65536 bytes, expected 91 to \d+"),
    "negative size": (replace(0, b"\xff\xff\xff\xff"), 7, "its size is 4294967295 bytes"),
    "body too long": (replace(84, b"\0\0\0\x05"), 7, "do not add up"),
    "body too long by far": (replace(84, b"\x7f\xff\xff\xff"), 7, "do not add up"),
    "negative body": (replace(84, b"\xff\xff\xff\xff"), 7, "do not add up"),
    "topic too long": (replace(92, b"\x07"), 7, "do not add up"),
    "negative topic": (replace(92, b"\xff"), 7, "do not add up"),
    "properties too long": (replace(99, b"\0\x05"), 7, "do not add up"),
    "negative properties": (replace(99, b"\xff\xff"), 7, "do not add up"),
    "hosts not of this size": (replace(39, b"\x30"), 7, "do not add up"),
    "cut after its size": (lambda good: good[:4], None, r"its size is \d+ bytes, expected 91 to 4"),
    "cut in its size": (lambda good: good[:3], None, "the response ends after 3 bytes of it"),
    "cut at its end": (lambda good: good[:-1], 7, "its size is"),
}


@pytest.mark.parametrize("others", [0, 60])
@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_record_is_reported_and_those_before_it_are_usable(case: str, others: int) -> None:
    damage, offset, reason = DAMAGES[case]
    good = record(7, properties={"a": "b"})
    damaged = damage(good)
    behind = [] if len(damaged) < len(good) else [record(8)]
    bodies = [[record(5), record(6), damaged, *behind], *([record(9)] for _ in range(others))]
    data, starts, ends = join_bodies(bodies)
    table = locate_records(data, starts, ends)
    assert table.queue_offsets.tolist() == [5, 6, *[9] * others]
    (found,) = table.damaged
    assert found == DamagedRecord(0, int(starts[0]) + len(record(5)) * 2, offset, found.reason)
    assert re.search(reason, found.reason), found.reason
    assert decode_columns(table, ["body"]).column("body").to_pylist() == [b"body"] * (2 + others)


def test_each_body_reports_its_first_damaged_record() -> None:
    bad = record(3)[:4] + b"\0\0\0\0" + record(3)[8:]
    table = locate([record(0), bad, bad, b"rest"], [record(1)], [bad], [record(2), b"rest"])
    assert table.queue_offsets.tolist() == [0, 1, 2]
    assert [each.body_index for each in table.damaged] == [0, 2, 3]


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 11), (6, 5)])
def test_bounds_outside_the_data_are_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="outside the 10 bytes"):
        locate_records(bytes(10), np.array([start]), np.array([end]))


ANY_RECORD = st.builds(
    StoredRecord,
    body=st.binary(max_size=40),
    topic=st.sampled_from(("orders", LONG_TOPIC)),
    properties=st.binary(max_size=40) | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    born_host=st.sampled_from(HOSTS),
    store_host=st.sampled_from(HOSTS),
    sys_flag=st.integers(0, 0xFFF),
)


@given(
    bodies=st.lists(st.lists(ANY_RECORD, max_size=4), max_size=4),
    copies=st.sampled_from((1, 30)),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 50),
)
def test_changed_bytes_lead_to_rows_or_damaged_records(
    bodies: list[list[StoredRecord]], copies: int, changes: list[tuple[int, int]], cut: int
) -> None:
    """No other exception, no read outside the data, and valid columns."""
    content, starts, ends = join_bodies([[each.encode() for each in body] for body in bodies] * copies)
    data = bytearray(content)
    for at, new in changes:
        data[at % len(data)] = new
    if len(ends):
        ends[-1] = max(starts[-1], ends[-1] - cut)
    table = locate_records(data, starts, ends)
    for damaged in table.damaged:
        assert starts[damaged.body_index] <= damaged.position <= ends[damaged.body_index]
    decode_columns(table).validate(full=True)
    decode_columns(table, ["systemProperties", "keys"]).validate(full=True)


@given(data=st.binary(max_size=400), count=st.sampled_from((1, 60)))
def test_random_bytes_lead_to_damaged_records(data: bytes, count: int) -> None:
    table = locate_records(data, np.zeros(count, np.int64), np.full(count, len(data)))
    assert len(table.damaged) == (count if data else 0)
    assert len(decode_columns(table)) == 0
