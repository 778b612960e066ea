"""Rows of a stage are in the segment of their call, however late their commit: what retention does with them."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.errors import PreconditionFailed
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.store.disk_storage import StorageOptions
from tests.broker.store.test_disk_storage_replay import SEEDS, Story, commit_batch, hand_over, send

ONE_SEGMENT_EACH = StorageOptions(segment_bytes=64, save_bytes=0, snapshot_bytes=64, free_bytes_min=0, cache_bytes=1)


def bodies_of_orders(story: Story) -> list[bytes]:
    queues = story.model.list_readable_queues(story.model.require_topic("orders"))
    return [body for queue in queues if any(story.broker.bodies(queue)) for body in story.broker.bodies(queue)]


def test_retention_drops_an_open_stage_with_rows_in_what_it_deletes() -> None:
    story, batch = Story(ONE_SEGMENT_EACH), TransactionId("query", 1)
    story.act(SEEDS)
    for action in (
        [hand_over(batch, "a", 0, [b"old"])],
        "keep up",
        [hand_over(batch, "a", 1, [b"fresh"]), send("orders", [Message(b"seen", "ID")])],
        [send("orders", [Message(b"newest", "ID")])],
        ("expire", 0, None),
        "restart",
    ):
        story.act(action)
        story.check()
    assert story.broker.storage._log.begin > 0
    draft = Draft(story.broker.state)
    for command in (commit_batch(batch, {"a": 2}), hand_over(batch, "a", 2, [b"more"])):
        with pytest.raises(PreconditionFailed, match=r"stage a was dropped: .* fileReservedTime deletes"):
            command(story.broker.sender, draft, story.now_ms)
    assert bodies_of_orders(story) == [b"newest"]


def test_a_stage_that_is_committed_after_its_segment_is_old_keeps_the_segment() -> None:
    """Its rows are as old as their commit."""
    story, batch = Story(ONE_SEGMENT_EACH), TransactionId("query", 1)
    story.act(SEEDS)
    for action in (
        [hand_over(batch, "a", 0, [b"staged"])],
        [send("orders", [Message(b"seen", "ID")])],
        *[[send("orders", [Message(b"newer", "ID")])] for _ in range(5)],
        [commit_batch(batch, {"a": 1})],
        [send("invoices", [Message(b"x", "ID", message_group="g")])],
        ("expire", 25, None),
        "restart",
    ):
        story.act(action)
        story.check()
    assert b"staged" in bodies_of_orders(story)


def test_a_limit_by_size_leaves_no_hole_before_rows_that_were_committed_late() -> None:
    story, batch = Story(ONE_SEGMENT_EACH), TransactionId("query", 1)
    story.act(SEEDS)
    for action in (
        [hand_over(batch, "a", 0, [b"staged"])],
        [send("orders", [Message(b"before", "ID")])],
        [commit_batch(batch, {"a": 1})],
        *[[send("orders", [Message(b"after", "ID")])] for _ in range(2)],
    ):
        story.act(action)
        story.check()
    positions = [segment.base for segment in story.broker.storage._log.segments()]
    bounds = {queue: story.broker.state.bounds(queue) for queue in story.broker.state.store.list_queues()}
    staged_in = next(queue for queue in bounds if b"staged" in story.broker.bodies(queue))
    behind = story.broker.bodies(staged_in).index(b"staged") + 1
    assert dict(story.broker.storage.store.find_min_offsets_at(positions[2]))[staged_in] == behind
    story.act(("expire", 1 << 40, 0))
    story.check()
