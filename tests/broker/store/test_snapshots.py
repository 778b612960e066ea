"""A snapshot that is cut anywhere, or changed, is refused with the reason."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.state.facts import GroupPut
from rmqpull_broker.store.queues.segment_marks import NewestTimes
from rmqpull_broker.store.snapshots import _HEADER, DamagedSnapshot, Snapshot, decode_snapshot, encode_snapshot

SNAPSHOT = Snapshot(7, NewestTimes(3, 2, 1), 5, [GroupPut(GroupConfig("g"))], [], [], {}, [])
DATA = encode_snapshot(SNAPSHOT)


def test_it_is_read_as_it_was_written() -> None:
    assert decode_snapshot(memoryview(DATA)) == SNAPSHOT


def test_it_is_refused_wherever_it_is_cut() -> None:
    for size in range(len(DATA)):
        reason = "its header is not complete" if size < _HEADER.size else "it fails its checksum"
        with pytest.raises(DamagedSnapshot, match=reason):
            decode_snapshot(memoryview(DATA[:size]))


def test_it_is_refused_whichever_byte_is_changed() -> None:
    for at in range(len(DATA)):
        changed = bytearray(DATA)
        changed[at] ^= 1
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(memoryview(changed))
