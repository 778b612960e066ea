"""The plan of an export: its pieces, and how it is kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.cli.exports import plan as plans
from rmqpull_client.cli.exports.plan import BadPlan, Plan, decode_plan, encode_plan, list_queues
from rmqpull_client.model import Bounds, MessageQueue

QUEUES = (("broker a/1", 0, 5, 25), ("broker-b", 3, 0, 7))
PLAN = Plan("h:1", "orders", "parquet", ("body",), "*", "TAG", since_ms=None, until_ms=5, queues=QUEUES)
FIRST, SECOND = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def test_pieces_are_those_of_all_queues_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PIECE_ROWS", 10)
    assert [(piece.file_name, piece.range[1:]) for piece in PLAN.list_pieces()] == [
        ("broker%20a%2F1-0-00000000000000000005.parquet", (5, 15)),
        ("broker-b-3-00000000000000000000.parquet", (0, 7)),
        ("broker%20a%2F1-0-00000000000000000015.parquet", (15, 25)),
    ]
    assert [piece.range.from_offset for piece in PLAN.list_left({PLAN.list_pieces()[0].file_name})] == [0, 15]


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=3), st.integers(0, 9)),
        st.tuples(st.integers(0, 2_000_000), st.integers(0, 2_000_000)),
        max_size=4,
    )
)
def test_pieces_have_each_offset_once_and_names_of_their_own(found: dict[tuple[str, int], tuple[int, int]]) -> None:
    queues = tuple((*queue, first, first + count) for queue, (first, count) in found.items() if count)
    plan = replace(PLAN, queues=queues)
    pieces = plan.list_pieces()
    assert len({piece.file_name for piece in pieces}) == len(pieces)
    assert sum(piece.range.size for piece in pieces) == plan.row_count
    for broker_name, queue_id, first, until in queues:
        own = sorted(piece.range[1:] for piece in pieces if piece.range.queue[1:] == (broker_name, queue_id))
        assert [own[0][0], *(end for _, end in own)] == [*(begin for begin, _ in own), until]
        assert own[0][0] == first


def change_plan(**values: object) -> bytes:
    return json.dumps({**json.loads(encode_plan(PLAN)), **values}).encode()


def test_a_plan_is_read_as_it_was_written() -> None:
    assert decode_plan(encode_plan(PLAN)) == PLAN


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "it is not the plan of an export"),
        (b"[]", "it is not the plan of an export"),
        (b"{}", "it is not the plan of an export"),
        (b'{"version": 2}', "it has version 2, and this release reads version 1"),
        (change_plan(more=1), "it is not the plan"),
        (b"[" * 100_000, "it is not the plan"),
        (change_plan(queues=[["a", 1]]), "it is not the plan"),
        (change_plan(queues=[["a", 1, 0, "5"]]), "queue 'a', 1, 0, '5'"),
        (change_plan(queues=[["a", 1, 0, float("inf")]]), "queue 'a', 1, 0, inf"),
        (change_plan(queues=[["a", 1, -3, 5]]), "it has offsets -3 to 5 of queue a/1, which no queue has"),
        (change_plan(queues=[["a", 1, 5, 5]]), "it has offsets 5 to 5"),
        (change_plan(queues=[["a", 1, 0, 1 << 62]]), "which no queue has"),
        (change_plan(columns=[1]), "a value is of the wrong kind"),
        (change_plan(since_ms="now"), "a value is of the wrong kind"),
    ],
)
def test_what_is_no_plan_is_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(BadPlan, match=sentence):
        decode_plan(data)


def test_another_plan_is_told_apart_whatever_its_offsets() -> None:
    assert PLAN.find_difference(replace(PLAN, queues=())) is None
    assert PLAN.find_difference(replace(PLAN, columns=())) == "--columns body instead of all"
    assert PLAN.find_difference(replace(PLAN, topic="a", format="jsonl")) == "topic orders instead of a"
    assert PLAN.find_difference(replace(PLAN, since_ms=7)) == "--since none instead of 1970-01-01T00:00:00.007Z"
    assert PLAN.find_difference(replace(PLAN, expression="a", format="jsonl")) == "--format parquet instead of jsonl"
    assert PLAN.find_difference(replace(PLAN, expression="a")) == "filter none instead of a (TAG)"
    assert PLAN.find_difference(replace(PLAN, servers="i:1")) == "servers h:1 instead of i:1"


@pytest.mark.parametrize(
    ("since", "until", "queues"),
    [
        (None, None, (("broker-a", 0, 2, 9), ("broker-a", 1, 0, 4))),
        ({FIRST: 5, SECOND: 4}, None, (("broker-a", 0, 5, 9),)),
        (None, {FIRST: 5, SECOND: 0}, (("broker-a", 0, 2, 5),)),
        ({FIRST: 0, SECOND: 1}, {FIRST: 99, SECOND: 2}, (("broker-a", 0, 2, 9), ("broker-a", 1, 1, 2))),
    ],
)
def test_a_span_of_time_is_a_part_of_the_bounds(
    since: dict[MessageQueue, int] | None,
    until: dict[MessageQueue, int] | None,
    queues: tuple[tuple[str, int, int, int], ...],
) -> None:
    assert list_queues({SECOND: Bounds(0, 4), FIRST: Bounds(2, 9)}, since, until) == queues
