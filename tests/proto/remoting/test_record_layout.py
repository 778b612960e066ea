"""Positions, formats and the drawing of a stored message are three views of one layout (rules 4.7)."""

from __future__ import annotations

import re
from itertools import accumulate
from struct import Struct, calcsize

import pytest

from rmqpull_proto.remoting import record_layout as layout

NAMES = {
    "size of the record": "SIZE_AT",
    "magic code": "MAGIC_AT",
    "CRC-32 of the body": "BODY_CRC_AT",
    "queue id": "QUEUE_ID_AT",
    "flag": "FLAG_AT",
    "queue offset": "QUEUE_OFFSET_AT",
    "physical offset": "PHYSICAL_OFFSET_AT",
    "system flag": "SYS_FLAG_AT",
    "born timestamp in ms": "BORN_TIMESTAMP_AT",
    "born host": "BORN_HOST_AT",
    "store timestamp in ms": "STORE_TIMESTAMP_AT",
    "store host": "STORE_HOST_AT",
    "reconsume times": "RECONSUME_TIMES_AT",
    "offset of the half message that a commit or a rollback ends": None,
    "length of the body": "BODY_LENGTH_AT",
    "body": "HEAD_BYTES",
}
"""The constants of the parts in the drawing; nobody reads the offset of the half message."""


def drawn() -> list[tuple[int, int, str]]:
    """The parts with a position in the drawing: where, how long (0: as long as it says), what."""
    lines = re.findall(r"^ +(\d+) {4,}(\d*) +(\S[^:,\n]*)", layout.__doc__ or "", re.MULTILINE)
    return [(int(at), int(count or 0), text) for at, count, text in lines]


def test_the_drawing_has_the_positions() -> None:
    assert [text for _, _, text in drawn()] == list(NAMES)
    for at, count, text in drawn():
        name = NAMES[text]
        assert name is None or getattr(layout, name) == at, text
        following = [other for other, _, _ in drawn() if other > at]
        assert not count or at + count == following[0], text


@pytest.mark.parametrize(
    ("packed", "begin", "end"),
    [
        (layout.HEAD, layout.SIZE_AT, layout.BORN_HOST_AT),
        (layout.STORE_TIMESTAMP, layout.STORE_TIMESTAMP_AT, layout.STORE_HOST_AT),
        (layout.TAIL, layout.RECONSUME_TIMES_AT, layout.HEAD_BYTES),
    ],
)
def test_the_formats_have_the_positions(packed: Struct, begin: int, end: int) -> None:
    sizes = [calcsize(f">{kind}") for kind in packed.format[1:]]
    found = [begin + at for at in accumulate(sizes, initial=0)]
    assert found == [at for at, _, _ in drawn() if begin <= at <= end]


def test_the_hosts_and_the_smallest_record_fit() -> None:
    assert layout.BORN_HOST_AT + layout.IPV4_HOST_BYTES == layout.STORE_TIMESTAMP_AT
    assert layout.STORE_HOST_AT + layout.IPV4_HOST_BYTES == layout.RECONSUME_TIMES_AT
    assert layout.HEAD_BYTES + 1 + layout.PROPERTIES_LENGTH.size == layout.RECORD_BYTES_MIN
