"""Pulls of records find the same messages as pulls of columns, whatever happened to the queue before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.filters.message_filter import EVERYTHING, MessageFilter, SqlFilter, parse_tags
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.pulling import record_pieces
from rmqpull_broker.core.pulling.message_pull import pull_messages
from rmqpull_broker.core.pulling.record_pull import RecordPulls
from rmqpull_broker.core.state.facts import QueuesTrimmed
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from tests.harness.core import CoreHarness

FILTERS = [EVERYTHING, parse_tags("red"), parse_tags("blue"), parse_tags("none"), SqlFilter("TAGS <> 'red'")]
LARGE = 100_000
"""Two bodies of this size fit into a response, three do not."""


def check_pull(
    core: CoreHarness, pulls: RecordPulls, offset: int, max_msg_nums: int, message_filter: MessageFilter
) -> None:
    """Compares a pull with the same one of columns."""
    expected = pull_messages(core.state, core.queue(), offset, max_msg_nums, message_filter)
    found = pulls.pull(core.queue(), offset, max_msg_nums, message_filter)
    body = b"".join(found.body)
    table = locate_records(body, np.array([0]), np.array([len(body)]))
    rows = columns.to_rows(expected.batches)
    assert table.damaged == ()
    assert (found.status, found.response, found.next_offset) == (
        expected.status,
        expected.response,
        expected.next_offset,
    )
    assert (found.bounds, found.may_park, found.row_count) == (expected.bounds, expected.may_park, len(rows))
    assert table.queue_offsets.tolist() == [row.queue_offset for row in rows]
    assert found.message_bytes == sum(len(row.message.body) for row in rows)


STEPS = st.one_of(
    st.tuples(st.just("send"), st.lists(st.sampled_from([1, 100, LARGE]), min_size=1, max_size=40)),
    st.tuples(st.just("rows"), st.lists(st.sampled_from(["red", "blue", None]), min_size=1, max_size=9)),
    st.tuples(st.just("trim"), st.integers(0, 120)),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("pull"), st.tuples(st.integers(-1, 130), st.integers(-1, 40), st.sampled_from(FILTERS))),
)


@pytest.mark.parametrize("pieces_bytes", [1_000, 1 << 20])
@given(steps=st.lists(STEPS, max_size=25))
def test_any_sequence_of_sends_trims_deletions_and_pulls(pieces_bytes: int, steps: list[tuple[str, object]]) -> None:
    core = CoreHarness()
    core.topic()
    pulls = RecordPulls(core.state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_pieces, "PIECES_BYTES_MAX", pieces_bytes)
        patch.setattr(record_pieces, "PIECE_ROWS_MAX", 50)
        patch.setattr(record_pieces, "MATCHES_MAX", 2)
        for step in steps:
            match step:
                case "send", list() as sizes:
                    core.fill([b"x" * size for size in sizes], ["red" if size > 1 else "blue" for size in sizes])
                case "rows", list() as tags:
                    core.send(*(Message(b"row", "ID", tags=tag) for tag in tags))
                case "trim", int() as min_offset:
                    core.state.apply([QueuesTrimmed(((core.queue(), min_offset),))])
                case "delete", None:
                    core.run(lambda draft: delete_topic(draft, "orders"))
                    core.topic()
                case "pull", (int() as offset, int() as max_msg_nums, MessageFilter() as message_filter):
                    check_pull(core, pulls, offset, max_msg_nums, message_filter)
        for message_filter in FILTERS:
            check_pull(core, pulls, core.state.bounds(core.queue()).min_offset, 32, message_filter)


@pytest.mark.parametrize("message_filter", FILTERS)
def test_a_queue_of_many_pieces_is_read_to_its_end(message_filter: MessageFilter) -> None:
    core = CoreHarness()
    core.topic()
    sizes = [LARGE if number % 100 in (4, 5, 6, 7, 8) else number % 3 + 1 for number in range(2_500)]
    core.fill([b"x" * size for size in sizes], ["red" if size != 2 else "blue" for size in sizes])
    pulls = RecordPulls(core.state)
    offset = 0
    while offset < len(sizes):
        check_pull(core, pulls, offset, 32, message_filter)
        offset = pulls.pull(core.queue(), offset, 32, message_filter).next_offset
