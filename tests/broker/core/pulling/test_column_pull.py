"""A pull of many queues into columns, with the limits and statuses of rmqpull.v1."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.groups import ensure_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.errors import Forbidden
from rmqpull_broker.core.filters.message_filter import EVERYTHING, TagFilter, parse_tags
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.pulling import column_pull
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.column_pull import ColumnPull, ColumnRead, begin_column_pull, may_park
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets
from rmqpull_broker.core.pulling.message_pull import Pulled
from rmqpull_broker.core.pulling.request import PullRequest
from tests.harness.core import CoreHarness

RED = parse_tags("red")


def offsets(pulled: Pulled) -> list[int]:
    return [row.queue_offset for row in columns.to_rows(pulled.batches)]


@pytest.fixture
def three_queues(core: CoreHarness) -> CoreHarness:
    """Three queues of four messages, each of 10 bytes."""
    core.topic(queue_count=3)
    core.fill([bytes(10)] * 12)
    return core


def ask(
    core: CoreHarness,
    *pulls: ColumnPull,
    message_filter: TagFilter = EVERYTHING,
    rows_max: int = 1_000,
    bytes_max: int = 1_000,
) -> list[tuple[str, list[int], int]]:
    results = ColumnRead(core.state, message_filter, rows_max, bytes_max).pull(pulls)
    return [(result.status.name, offsets(result), result.next_offset) for result in results]


@pytest.mark.parametrize(
    ("rows_max", "bytes_max", "answers"),
    [
        (1_000, 1_000, [("FOUND", [1, 2, 3], 4), ("FOUND", [0, 1, 2, 3], 4), ("FOUND", [2, 3], 4)]),
        (5, 1_000, [("FOUND", [1, 2, 3], 4), ("FOUND", [0, 1], 2), ("NOT_REACHED", [], 2)]),
        (3, 1_000, [("FOUND", [1, 2, 3], 4), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
        (1_000, 59, [("FOUND", [1, 2, 3], 4), ("FOUND", [0, 1], 2), ("NOT_REACHED", [], 2)]),
        (1_000, 30, [("FOUND", [1, 2, 3], 4), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
        (2, 15, [("FOUND", [1], 2), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
        (1, 1_000, [("FOUND", [1], 2), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
        (1_000, 1, [("FOUND", [1], 2), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
    ],
)
def test_queues_fill_the_answer_in_their_order(
    three_queues: CoreHarness, rows_max: int, bytes_max: int, answers: list[tuple[str, list[int], int]]
) -> None:
    pulls = [ColumnPull(three_queues.queue(queue_id), offset) for queue_id, offset in enumerate((1, 0, 2))]
    assert ask(three_queues, *pulls, rows_max=rows_max, bytes_max=bytes_max) == answers


@pytest.mark.parametrize(
    ("until_offset", "found"), [(3, [1, 2]), (2, [1]), (4, [1, 2, 3]), (99, [1, 2, 3]), (None, [1, 2, 3])]
)
def test_nothing_is_read_at_or_beyond_until_offset(
    three_queues: CoreHarness, until_offset: int | None, found: list[int]
) -> None:
    answer = ask(three_queues, ColumnPull(three_queues.queue(), 1, until_offset))
    assert answer == [("FOUND", found, found[-1] + 1)]


@pytest.mark.parametrize("until_offset", [1, 0])
def test_an_empty_range_reads_nothing_and_goes_nowhere(three_queues: CoreHarness, until_offset: int) -> None:
    ((_, found, next_offset),) = ask(three_queues, ColumnPull(three_queues.queue(), 1, until_offset))
    assert (found, next_offset) == ([], 1)


def test_each_queue_has_its_own_status(three_queues: CoreHarness) -> None:
    queue = three_queues.queue()
    nowhere = [three_queues.queue(3), MessageQueue("orders", "broker-b", 0), three_queues.queue(topic="unknown")]
    pulls = [ColumnPull(queue, 4), ColumnPull(queue, 5), ColumnPull(queue, -1), *(ColumnPull(n, 7) for n in nowhere)]
    assert ask(three_queues, *pulls, ColumnPull(queue, 3)) == [
        ("OFFSET_OVERFLOW_ONE", [], 4),
        ("OFFSET_OVERFLOW_BADLY", [], 4),
        ("OFFSET_TOO_SMALL", [], 0),
        *[("NO_MATCHED_LOGIC_QUEUE", [], 7)] * 3,
        ("FOUND", [3], 4),
    ]


def test_a_queue_that_got_nowhere_in_a_full_answer_was_not_reached(core: CoreHarness) -> None:
    core.topic(queue_count=2)
    core.fill([b"x"] * 6, ["red", "blue", "red", "blue", "red", "red"])
    pulls = [ColumnPull(core.queue(0), 0), ColumnPull(core.queue(1), 0), ColumnPull(core.queue(1), 1)]
    assert ask(core, *pulls, message_filter=RED, rows_max=2) == [
        ("FOUND", [0, 2], 3),
        ("NO_MATCHED_MESSAGE", [], 1),
        ("NOT_REACHED", [], 1),
    ]


def test_a_rare_tag_does_not_hold_up_the_answer(core: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_pull, "COLUMN_SCAN_ROWS_MAX", 3)
    core.topic()
    core.fill([b"x"] * 5, ["blue"] * 4 + ["red"])
    assert ask(core, ColumnPull(core.queue(), 0), message_filter=RED) == [("NO_MATCHED_MESSAGE", [], 3)]
    assert ask(core, ColumnPull(core.queue(), 3), message_filter=RED) == [("FOUND", [4], 5)]


@pytest.mark.parametrize(
    ("offset", "rows_max", "next_offset"),
    [
        (0, 3, 3),
        (0, 4, 4),
        (0, 6, 4),  # and not two of the second batch
        (0, 7, 7),
        (1, 5, 6),  # the first batch has too little left
        (1, 6, 7),
    ],
)
def test_an_answer_with_enough_rows_ends_with_a_stored_batch(
    core: CoreHarness, monkeypatch: pytest.MonkeyPatch, offset: int, rows_max: int, next_offset: int
) -> None:
    monkeypatch.setattr(column_pull, "ENOUGH_ROWS", 4)
    core.topic()
    core.fill([b"x"] * 4)
    core.fill([b"x"] * 3)
    read = list(range(offset, next_offset))
    assert ask(core, ColumnPull(core.queue(), offset), rows_max=rows_max) == [("FOUND", read, next_offset)]


def test_batches_that_fit_without_being_measured_count_like_others(core: CoreHarness) -> None:
    pulls = [ColumnPull(queue, 0) for queue in core.state.list_readable_queues(core.topic(queue_count=3))]
    core.fill([bytes(400)] * 12)
    in_memory = sum(batch.nbytes for pull in pulls for batch in core.state.store.read(pull.queue, 0, 4))
    for bytes_max in range(400, in_memory + 400, 80):
        results = ColumnRead(core.state, EVERYTHING, 1_000, bytes_max).pull(pulls)
        assert sum(result.row_count for result in results) == min(12, bytes_max // 400)


@given(
    st.lists(st.lists(st.sampled_from(["red", "blue"]), min_size=1, max_size=9), min_size=1, max_size=4),
    st.sampled_from([EVERYTHING, RED]),
    st.integers(1, 9),
    st.integers(1, 60),
    st.sampled_from([2, column_pull.ENOUGH_ROWS]),
)
def test_following_next_offset_reads_every_matching_row_once_within_the_limits(
    batches: list[list[str]],
    message_filter: TagFilter,
    rows_max: int,
    bytes_max: int,
    enough: int,
) -> None:
    core = CoreHarness()
    queues = core.state.list_readable_queues(core.topic(queue_count=2))
    for tags in batches:
        core.fill([bytes(6 + len(tags))] * len(tags), tags)
    wanted = {
        q: [r.queue_offset for r in core.rows(q) if message_filter.tags is None or r.message.tags == "red"]
        for q in queues
    }
    reached, read = dict.fromkeys(queues, 0), {queue: list[int]() for queue in queues}
    while any(reached[queue] < core.state.bounds(queue).max_offset for queue in queues):
        pulls = [ColumnPull(*at) for at in reached.items()]
        with mock.patch.object(column_pull, "ENOUGH_ROWS", enough):
            results = ColumnRead(core.state, message_filter, rows_max, bytes_max).pull(pulls)
        sizes = [
            size
            for result in results
            for batch in result.batches
            for size in columns.count_row_bytes(batch).to_pylist()
        ]
        assert len(sizes) <= rows_max
        assert sum(sizes) <= bytes_max or len(sizes) == 1
        progress = {queue: result.next_offset for queue, result in zip(queues, results, strict=True)}
        assert progress != reached
        assert all(r.next_offset == r.offset for r in results if r.status is PullStatus.NOT_REACHED)
        reached = progress
        for queue, result in zip(queues, results, strict=True):
            read[queue] += offsets(result)
    assert read == wanted


# --- the topic that is meant, resets and commits ------------------------------------------------------------------


def begin(core: CoreHarness, *pulls: ColumnPull, is_first_run: bool = True) -> list[tuple[str, list[int], int]]:
    """A pull with its checks, of the group ``readers``."""
    request = PullRequest("readers", pulls[0].queue)
    verdicts = core.run(
        lambda draft: begin_column_pull(
            draft, ConsumerRegistry(), request, pulls, core.now_ms, is_first_run=is_first_run
        )
    )
    results = ColumnRead(core.state, EVERYTHING, 1_000, 1_000).pull(pulls, verdicts)
    return [(result.status.name, offsets(result), result.next_offset) for result in results]


@pytest.mark.parametrize(
    ("creation_id", "status"),
    [("id of orders", "FOUND"), (None, "FOUND"), ("of its predecessor", "NO_MATCHED_LOGIC_QUEUE")],
)
def test_another_topic_of_the_same_name_has_no_such_queue(
    three_queues: CoreHarness, creation_id: str | None, status: str
) -> None:
    pull = ColumnPull(three_queues.queue(), 3, creation_id=creation_id)
    ((found, _, next_offset),) = begin(three_queues, pull)
    assert (found, next_offset) == (status, 4 if status == "FOUND" else 3)


@pytest.mark.parametrize("queue_count", [0, 1])
def test_a_queue_that_came_after_the_checks_is_not_read_without_them(core: CoreHarness, queue_count: int) -> None:
    """Commands that wait together are kept together, and only then answered."""
    if queue_count:
        core.topic(queue_count)
    pull = ColumnPull(core.queue(queue_count), 0)
    request = PullRequest("readers", pull.queue, subscription="red")
    verdicts = core.run(lambda draft: begin_column_pull(draft, ConsumerRegistry(), request, [pull], core.now_ms))
    core.run(lambda draft: put_topic(draft, TopicConfig("orders", 2, 2)))
    core.fill([b"blue"] * 2)
    (result,) = ColumnRead(core.state, EVERYTHING, 1_000, 1_000).pull([pull], verdicts)
    assert (result.status, offsets(result)) == (PullStatus.NO_MATCHED_LOGIC_QUEUE, [])


def test_a_queue_with_a_reset_reports_it_once_and_the_others_are_read(three_queues: CoreHarness) -> None:
    queue, other = three_queues.queue(0), three_queues.queue(1)
    three_queues.run(lambda draft: ensure_group(draft, "readers"))
    three_queues.run(lambda draft: reset_offsets(draft, "readers", [(queue, 2)]))
    pulls = [ColumnPull(queue, 3), ColumnPull(other, 3)]
    assert begin(three_queues, *pulls) == [("OFFSET_RESET", [], 2), ("FOUND", [3], 4)]
    assert begin(three_queues, *pulls) == [("FOUND", [3], 4), ("FOUND", [3], 4)]


def test_a_reset_waits_for_a_pull_of_the_topic_that_is_there(three_queues: CoreHarness) -> None:
    queue = three_queues.queue()
    three_queues.run(lambda draft: ensure_group(draft, "readers"))
    three_queues.run(lambda draft: reset_offsets(draft, "readers", [(queue, 2)]))
    assert begin(three_queues, ColumnPull(queue, 3, creation_id="old"))[0][0] == "NO_MATCHED_LOGIC_QUEUE"
    assert begin(three_queues, ColumnPull(queue, 3))[0][0] == "OFFSET_RESET"


def test_offsets_are_set_in_the_first_run_for_every_queue_that_is_there(three_queues: CoreHarness) -> None:
    queues = [three_queues.queue(queue_id) for queue_id in (0, 1, 9)]
    pulls = [ColumnPull(queue, 99, commit_offset=at) for at, queue in enumerate(queues, 5)]
    begin(three_queues, *pulls, is_first_run=False)
    assert three_queues.state.consumer_offsets == {}
    begin(three_queues, *pulls)
    assert three_queues.state.consumer_offsets == {("readers", queues[0]): 5, ("readers", queues[1]): 6}


def test_what_is_forbidden_refuses_all_and_brings_nothing_about(three_queues: CoreHarness) -> None:
    three_queues.topic(name="secret")
    three_queues.run(lambda draft: put_topic(draft, TopicConfig("secret", 1, 1, perm=2)))
    pulls = [ColumnPull(three_queues.queue(), 0, commit_offset=4), ColumnPull(three_queues.queue(topic="secret"), 0)]
    with pytest.raises(Forbidden, match=r"^the topic\[secret\] pulling message is forbidden$"):
        begin(three_queues, *pulls)
    assert three_queues.state.consumer_offsets == {}


@pytest.mark.parametrize(
    ("offsets_asked", "is_held"),
    [((4, 4), True), ((4, 3), False), ((4, 5), False), ((4, -1), False)],
)
def test_a_pull_is_held_when_every_queue_is_at_its_end(
    three_queues: CoreHarness, offsets_asked: tuple[int, ...], is_held: bool
) -> None:
    pulls = [ColumnPull(three_queues.queue(queue_id), at) for queue_id, at in enumerate(offsets_asked)]
    assert may_park(ColumnRead(three_queues.state, EVERYTHING, 10, 1_000).pull(pulls)) == is_held


def test_a_queue_that_is_not_there_is_not_waited_for(three_queues: CoreHarness) -> None:
    pulls = [ColumnPull(three_queues.queue(topic="unknown"), 0)]
    assert not may_park(ColumnRead(three_queues.state, EVERYTHING, 10, 1_000).pull(pulls))
