"""The file with the offsets of a copy: what is written can be read, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.cli.copies.offsets_file import BadOffsets, Copy, decode_offsets, encode_offsets
from rmqpull_client.model import MessageQueue

COPY = Copy("h:1", "orders", "i:1", "copies", "*", "TAG")
QUEUES = st.builds(MessageQueue, st.just("orders"), st.text(max_size=4), st.integers(0, 9))


@given(st.dictionaries(QUEUES, st.integers(0, 2**63 - 1), max_size=5))
def test_offsets_can_be_read_again(offsets: dict[MessageQueue, int]) -> None:
    assert decode_offsets(encode_offsets(COPY, offsets), COPY) == offsets


@given(st.binary() | st.sampled_from([b"{}", b"[]", b"[" * 100_000, b'{"version": 1}', encode_offsets(COPY, {})[:-9]]))
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(BadOffsets, match="it "):
        decode_offsets(data, COPY)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (replace(COPY, to_topic="others"), "it is of another copy, with to_topic 'copies' instead of 'others'"),
        (replace(COPY, expression="paid"), "with expression '\\*' instead of 'paid'"),
    ],
)
def test_the_offsets_of_another_copy_are_refused(wanted: Copy, sentence: str) -> None:
    with pytest.raises(BadOffsets, match=sentence):
        decode_offsets(encode_offsets(COPY, {}), wanted)


@pytest.mark.parametrize("offset", ["-3", "1e999", "2.5", "true", '"5"', "null"])
def test_an_offset_that_no_message_has_is_refused(offset: str) -> None:
    kept = encode_offsets(COPY, {MessageQueue("orders", "broker-a", 0): 4711})
    with pytest.raises(BadOffsets, match=r"it has .* instead of the offset of a message"):
        decode_offsets(kept.replace(b"4711", offset.encode()), COPY)


def test_a_file_of_a_later_release_is_refused() -> None:
    later = encode_offsets(COPY, {}).replace(b'"version": 1', b'"version": 2')
    with pytest.raises(BadOffsets, match="it has version 2, and this release reads version 1"):
        decode_offsets(later, COPY)
