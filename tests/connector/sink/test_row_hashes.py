"""The hash of a row depends on all its values, and on nothing beside it."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_rmqpull.sink.row_hashes import LANES, RowHashes, fold

BODIES = st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=10)


def hash_rows(seed: bytes = b"seed", **columns: pa.Array) -> list[bytes]:
    return [row.tobytes() for row in fold(RowHashes(seed).sum_columns(columns))]


def hash_texts(*texts: bytes | None) -> list[bytes]:
    return hash_rows(body=pa.array(texts, pa.binary()))


def sum_words(column: str, text: bytes) -> list[int]:
    """NH as RFC 4418 defines it, word by word, with the keys of a seed."""
    padded = text + b"\x80"
    padded += bytes(-len(padded) % 8)
    stream = hashlib.shake_256(b"seed" + column.encode()).digest(len(padded) * LANES)
    sums = [0] * LANES
    for index in range(len(padded) // 8):
        low, high = (int.from_bytes(padded[8 * index + 4 * half :][:4], "little") for half in (0, 1))
        for lane in range(LANES):
            key = stream[8 * (index * LANES + lane) :][:8]
            low_key, high_key = int.from_bytes(key[:4], "little"), int.from_bytes(key[4:], "little")
            sums[lane] += ((low + low_key) % (1 << 32)) * ((high + high_key) % (1 << 32))
    return [number % (1 << 64) for number in sums]


LONG = st.binary(min_size=200, max_size=300)
EVEN = st.integers(0, 40).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1))


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=12)
    | st.lists(LONG | st.binary(max_size=2), min_size=1, max_size=12)
    | EVEN
    | st.binary(max_size=20).map(lambda text: [text] * 3)
)
@example([bytes(size) for size in range(20)])
@example([bytes([row]) * 16 for row in range(20)])
@example([b"x" * 300, *([b""] * 50)])
@example([b"a" * 300, b"b" * 300])
def test_the_sums_are_those_of_nh(texts: list[bytes]) -> None:
    """Texts of about the same length, of one length, of very different lengths, and more words than texts."""
    sums = RowHashes(b"seed").sum_columns({"body": pa.array(texts, pa.binary())})
    assert sums.T.tolist() == [sum_words("body", text) for text in texts]


@given(BODIES, st.data())
def test_a_row_has_the_same_hash_whatever_is_beside_it(bodies: list[bytes | None], data: Any) -> None:
    first = data.draw(st.integers(0, len(bodies) - 1))
    alone = [hash_texts(body)[0] for body in bodies]
    assert hash_rows(body=pa.array(bodies, pa.binary()).slice(first)) == alone[first:]


@given(st.lists(st.binary(max_size=20), unique=True, min_size=2))
def test_different_texts_have_different_hashes(texts: list[bytes]) -> None:
    assert len(set(hash_texts(*texts))) == len(texts)


def test_a_text_is_not_confused_with_its_padding() -> None:
    texts = [b"", b"\x80", b"\0", b"\x80\0", b"1234567", b"1234567\x80", b"12345678", b"12345678\0"]
    assert len(set(hash_texts(*texts))) == len(texts)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, 1], pa.int32()),
        pa.array([None, b"x"], pa.binary()),
        pa.array([None, b"x"], pa.large_binary()),
        pa.array([None, "x"], pa.string()),
        pa.array([None, datetime.datetime(2026, 1, 1)], pa.timestamp("us", "UTC")),
    ],
)
def test_null_counts_like_a_missing_column(values: pa.Array) -> None:
    bodies = pa.array([b"a", b"a"])
    missing = hash_rows(body=bodies)
    null, given = hash_rows(body=bodies, other=values)
    assert (null == missing[0], given == missing[1]) == (True, False)


def test_equal_values_of_other_columns_differ_and_so_do_null_and_empty() -> None:
    body = pa.array([b"a"])
    others: list[dict[str, list[Any]]] = [
        {"tags": [""]},
        {"tags": ["x"]},
        {"messageGroup": ["x"]},
        {"queueId": [0]},
        {"queueId": [1]},
        {},
    ]
    hashes = {hash_rows(body=body, **{name: pa.array(v) for name, v in other.items()})[0] for other in others}
    assert len(hashes) == len(others)


def test_the_keys_come_from_the_seed() -> None:
    body = pa.array([b"a"])
    assert hash_rows(b"one", body=body) != hash_rows(b"two", body=body)


def test_counts_differ() -> None:
    hashes = RowHashes(b"seed")
    sums = hashes.sum_counts(np.arange(1, 1_001, dtype=np.uint64))
    assert len({row.tobytes() for row in fold(sums)}) == 1_000
