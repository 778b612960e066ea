"""Messages go to the queue that the gRPC proxy would choose, to the named one, or to all queues in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.sending.queue_selection import consistent_hash
from rmqpull_broker.core.sending.queue_selection import hash_like_java as hash_in_the_broker
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.sending.queue_choice import (
    Turns,
    choose_queues,
    hash_consistently,
    hash_like_java,
)

QUEUES = [MessageQueue("orders", broker, number) for broker in ("a", "b") for number in range(4)]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


def choose(by_keys: bool = False, **columns: Any) -> list[int]:
    """Chooses among eight queues, and expects that no row names an unknown one."""
    indexes, reasons = choose_queues(pa.record_batch(columns), QUEUES, by_keys)
    assert not reasons
    return [int(index) for index in indexes]


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("group-1", 293427299),
        ("polygenelubricants", -(1 << 31)),
        ("Größe", 69209585),
        ("𝄞", 1772394),
    ],
)
def test_texts_have_the_hash_code_that_java_gives_them(text: str, hashed: int) -> None:
    assert hash_like_java(pa.array([text])).tolist() == [hashed]


@given(st.lists(TEXTS, max_size=20), st.integers(0, 5))
def test_hashes_of_a_column_are_those_of_its_texts(texts: list[str], start: int) -> None:
    column = pa.array(texts, pa.string()).slice(start)
    assert hash_like_java(column).tolist() == [hash_in_the_broker(text) for text in texts[start:]]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=30), st.integers(1, 2_000))
def test_buckets_of_many_values_are_those_of_each_value(values: list[int], count: int) -> None:
    assert hash_consistently(np.array(values, np.int64), count).tolist() == [
        consistent_hash(value, count) for value in values
    ]


def test_a_message_group_has_one_queue_and_goes_before_keys() -> None:
    of_groups = choose(messageGroup=pa.array(["g", "h", None, "", "g"]))
    assert of_groups[0] == of_groups[4] == consistent_hash(hash_in_the_broker("g"), 8)
    assert of_groups[1] == consistent_hash(hash_in_the_broker("h"), 8)
    assert of_groups[2:4] == [-1, -1]
    keys = pa.array([["k", "l"], ["k", "l"], ["k"], None, []])
    mixed = choose(True, messageGroup=pa.array(["g", None, None, None, None]), keys=keys)
    assert mixed[0] == of_groups[0]
    assert mixed[1:3] == [consistent_hash(hash_in_the_broker(text), 8) for text in ("k l", "k")]
    assert mixed[3:] == [-1, -1]


def test_keys_choose_no_queue_unless_asked() -> None:
    assert choose(keys=pa.array([["k"], None])) == [-1, -1]


def test_a_named_queue_goes_before_the_message_group() -> None:
    names, numbers = pa.array(["b", "a", None]), pa.array([3, 0, None], pa.int32())
    assert choose(messageGroup=pa.array(["g"] * 3), brokerName=names, queueId=numbers)[:2] == [7, 0]


@pytest.mark.parametrize(
    ("name", "number", "reason"),
    [
        ("a", 4, "queue 4 of broker a, but topic orders has no such writable queue: a has the queues 0 to 3"),
        ("c", 0, "queue 0 of broker c, but topic orders has no such writable queue: its brokers are a, b"),
        ("a", None, "only one of brokerName and queueId"),
        (None, 1, "only one of brokerName and queueId"),
    ],
)
def test_a_named_queue_must_exist(name: str | None, number: int | None, reason: str) -> None:
    rows = pa.record_batch({"brokerName": pa.array(["a", name]), "queueId": pa.array([1, number], pa.int32())})
    indexes, reasons = choose_queues(rows, QUEUES, by_keys=False)
    assert indexes[0] == 1
    assert list(reasons) == [1]
    assert reason in reasons[1]


def test_queues_take_turns_from_a_random_start_and_unusable_ones_are_left_out() -> None:
    turns = Turns(lambda count: 2)
    assert [turns.take("orders", [True] * 4) for _ in range(5)] == [2, 3, 0, 1, 2]
    assert [turns.take("orders", [False, True, True, False]) for _ in range(3)] == [1, 2, 1]
    assert [turns.take("orders", [False] * 2) for _ in range(3)] == [0, 1, 0]
    assert turns.take("other", [True] * 3) == 2
