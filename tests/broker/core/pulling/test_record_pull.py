"""Pulls of records find the same messages as pulls of columns, whatever was pulled before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.filters.message_filter import EVERYTHING, parse_tags
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.pulling.message_pull import pull_messages
from rmqpull_broker.core.pulling.record_pull import RecordPulls
from rmqpull_proto.remoting.messages.stored_messages import locate_records
from tests.harness.core import CoreHarness


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 60), st.integers(-1, 40)), max_size=20), st.data())
def test_records_are_those_of_a_pull_of_columns(steps: list[tuple[int, int, int]], data: st.DataObject) -> None:
    core = CoreHarness()
    core.topic()
    pulls = RecordPulls(core.state)
    queue = core.queue()
    for kind, offset, count in steps:
        if kind == 0:
            sizes = [data.draw(st.sampled_from([1, 100, 30_000])) for _ in range(max(1, count))]
            core.fill([b"x" * size for size in sizes], ["red" if size > 1 else "blue" for size in sizes])
        message_filter = parse_tags("red") if kind == 1 else EVERYTHING
        expected = pull_messages(core.state, queue, offset, count, message_filter)
        found = pulls.pull(queue, offset, count, message_filter)
        body = b"".join(found.body)
        table = locate_records(body, np.array([0]), np.array([len(body)]))
        assert found.pulled.status == expected.status
        assert found.pulled.next_offset == expected.next_offset
        assert found.row_count == expected.row_count
        assert table.queue_offsets.tolist() == [row.queue_offset for row in columns.to_rows(expected.batches)]
