"""How many topics, groups and offsets there may be: one below a limit is stored, one above it is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rmqpull_broker.core.admin.groups import delete_group, ensure_group, put_group
from rmqpull_broker.core.admin.topics import create_on_send, delete_topic, ensure_retry_topic, put_topic
from rmqpull_broker.core.clients.heartbeats import draft_groups
from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.popping.pop import pop_messages
from rmqpull_broker.core.popping.request import PopRequest
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.pulling.consumer_offsets import (
    UnstoredOffset,
    answer_reset,
    keep_offsets,
    reset_offsets,
    set_offsets,
    update_offset,
)
from rmqpull_broker.core.pulling.group_offsets import clone_offsets
from rmqpull_broker.core.state import room
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import GroupPut, TopicPut
from tests.harness.core import CoreHarness

Command = Callable[[Draft], Any]
QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> CoreHarness:
    """A broker with the topic "orders" of four queues and the group "readers", one place of each kind is left."""
    for name, value in {
        "TOPICS_MAX": 2,
        "TOPICS_OF_ALL_MAX": 3,
        "GROUPS_MAX": 2,
        "OFFSETS_MAX": 3,
        "OFFSETS_OF_ANY_QUEUE_MAX": 2,
    }.items():
        monkeypatch.setattr(room, name, value)
    core = CoreHarness()
    core.topic(queue_count=4)
    core.run(lambda draft: ensure_group(draft, "readers"))
    return core


def put(name: str) -> Command:
    return lambda draft: put_topic(draft, TopicConfig(name, 1, 1, creation_id=name))


def send(name: str) -> Command:
    return lambda draft: create_on_send(draft, name, "TBW102", 4, lambda: "new")


def retry(name: str) -> Command:
    return lambda draft: ensure_retry_topic(draft, name, 1, lambda: "new")


def commit(queue_id: int, offset: int = 0) -> Command:
    return lambda draft: update_offset(draft, "readers", QUEUE._replace(queue_id=queue_id), offset)


def beat(*groups: str) -> Command:
    return lambda draft: draft_groups(draft, groups, lambda: "new")


@pytest.mark.proves("How many topics, groups and consumer offsets there may be")
@pytest.mark.parametrize(
    ("below", "above", "refusal"),
    [
        (put("sales"), put("more"), "topic more is not created: 2 topics exist, the max; delete some first"),
        (send("sales"), send("more"), "topic more is not created: 2 topics exist"),
        (put("sales"), send("more"), "topic more is not created: 2 topics exist"),
        (beat("readers"), send("more"), "topic more is not created: 2 topics exist"),
        (
            lambda draft: ensure_group(draft, "b"),
            lambda draft: ensure_group(draft, "c"),
            "group c is not created: 2 gr",
        ),
        (
            lambda draft: put_group(draft, GroupConfig("b")),
            lambda draft: put_group(draft, GroupConfig("c")),
            "group c is not created: 2 groups exist, the max; delete some first",
        ),
        (beat("readers", "b"), beat("c"), "group c is not created: 2 groups exist"),
    ],
)
def test_topics_and_groups(core: CoreHarness, below: Command, above: Command, refusal: str) -> None:
    core.run(below)
    before = core.state.to_facts()
    with pytest.raises(TooManyRequests, match=refusal):
        core.run(above)
    assert core.state.to_facts() == before


def test_topics_of_retries_and_dead_letters_have_room_of_their_own(core: CoreHarness) -> None:
    core.run(put("sales"))
    core.run(retry("%RETRY%readers"))
    for name in ("%RETRY%b", "%DLQ%readers"):
        with pytest.raises(TooManyRequests, match=f"topic {name} is not created: 3 topics exist, the max"):
            core.run(retry(name))
    core.run(retry("%RETRY%readers"))


def test_what_exists_changes_above_the_limit_and_what_is_deleted_makes_room(core: CoreHarness) -> None:
    core.state.apply([TopicPut(TopicConfig(f"old-{number}", 1, 1)) for number in range(5)])
    core.state.apply([GroupPut(GroupConfig(f"old-{number}")) for number in range(5)])
    core.run(put("old-0"))
    core.run(lambda draft: put_group(draft, GroupConfig("old-0", consume_enable=False)))
    for number in range(5):
        core.run(partial(delete_topic, name=f"old-{number}"))
        core.run(partial(delete_group, name=f"old-{number}"))
    core.run(put("sales"))
    core.run(lambda draft: ensure_group(draft, "b"))


@pytest.mark.parametrize(
    "above",
    [
        commit(3),
        lambda draft: set_offsets(draft, "readers", [(QUEUE, 1), (QUEUE._replace(queue_id=3), 1)]),
        lambda draft: reset_offsets(draft, "readers", [(QUEUE._replace(queue_id=3), 0)]),
        lambda draft: clone_offsets(draft, "readers", "others", "orders", "broker-a"),
    ],
)
def test_consumer_offsets(core: CoreHarness, above: Command) -> None:
    for queue_id in (0, 1, 2):
        core.run(commit(queue_id))
    with pytest.raises(
        TooManyRequests, match=r"gets no offset on queue orders.*: 3 consumer offsets are kept, the max;"
    ):
        core.run(above)
    assert len(core.state.consumer_offsets) == 3
    core.run(commit(0, 7))
    core.run(commit(1, -1))
    core.run(commit(3, 5))
    assert [core.state.consumer_offsets.get(("readers", core.queue(number))) for number in range(4)] == [7, None, 0, 5]


def test_offsets_on_queues_that_a_topic_does_not_have_leave_room_for_others(core: CoreHarness) -> None:
    core.run(commit(4))
    core.run(commit(-1))
    with pytest.raises(
        TooManyRequests, match="2 consumer offsets are kept, the max for a queue that its topic does not"
    ):
        core.run(commit(5))
    core.run(commit(0))


def test_the_offsets_of_one_group(core: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "OFFSETS_OF_GROUP_MAX", 2)
    core.run(commit(0))
    with pytest.raises(TooManyRequests, match="on queue orders/broker-a/2: it has 2, the max of a group"):
        core.run(lambda draft: set_offsets(draft, "readers", [(core.queue(1), 1), (core.queue(2), 1)]))
    core.run(commit(1))
    core.run(commit(0, 7))
    with pytest.raises(TooManyRequests, match="the max of a group"):
        core.run(commit(2))
    core.run(lambda draft: set_offsets(draft, "others", [(core.queue(2), 1)]))


def test_resets_that_no_pull_has_got(core: CoreHarness) -> None:
    for queue_id in range(3):
        core.run(partial(reset_offsets, group="readers", offsets=[(core.queue(queue_id), 0)]))
    core.run(lambda draft: delete_topic(draft, "orders"))  # its resets stay
    core.topic(queue_count=4)
    with pytest.raises(
        TooManyRequests, match=r"is not reset on queue .*: 3 resets wait for a pull, the max; pull with"
    ):
        core.run(lambda draft: reset_offsets(draft, "readers", [(core.queue(3), 0)]))
    core.run(lambda draft: reset_offsets(draft, "readers", [(core.queue(2), 0)]))
    core.run(lambda draft: answer_reset(draft, "readers", core.queue(0)))
    core.run(lambda draft: reset_offsets(draft, "readers", [(core.queue(3), 0)]))


def test_commands_of_one_draft_share_the_room_and_a_refused_one_takes_none(core: CoreHarness) -> None:
    draft = Draft(core.state)
    with pytest.raises(TooManyRequests):
        beat("b", "c")(draft)
    draft.drop_command()
    put("sales")(draft)
    put("sales")(draft)
    ensure_group(draft, "b")
    draft.end_command()
    for above in (put("more"), beat("c")):
        with pytest.raises(TooManyRequests):
            above(draft)
        draft.drop_command()
    assert [type(fact) for facts in draft.fact_batches for fact in facts] == [TopicPut, TopicPut, GroupPut]


def test_offsets_that_nobody_waits_for_are_left_out(core: CoreHarness) -> None:
    offsets = {("readers", core.queue(number)): UnstoredOffset(5, -1) for number in range(4)}
    refusal = core.run(lambda draft: keep_offsets(draft, offsets))
    assert [queue.queue_id for _, queue in core.state.consumer_offsets] == [0, 1, 2]
    assert "3 consumer offsets are kept" in str(refusal)
    again = {key: UnstoredOffset(6, 5) for key in core.state.consumer_offsets}
    assert core.run(lambda draft: keep_offsets(draft, again)) is None


def test_a_pop_needs_room_for_its_retries_which_are_stored_in_any_case_then(core: CoreHarness) -> None:
    core.send(Message(b"x", "1"))
    core.run(commit(1))
    core.run(commit(2))
    pop = PopRequest("readers", "orders", "broker-a", queue_id=0, invisible_ms=10_000)
    core.run(lambda draft: pop_messages(draft, pop, 0, lambda count: 0))
    core.run(retry("%RETRY%readers"))
    core.run(retry("%DLQ%readers"))
    with pytest.raises(TooManyRequests, match="topic %RETRY%readers_orders is not created: 3 topics exist, the max"):
        core.run(lambda draft: pop_messages(draft, pop, 0, lambda count: 0))
    assert core.run(lambda draft: revive_due(draft, 10_000, "here", lambda: "new")) == 1
    assert len(core.rows(core.queue(topic="%RETRY%readers_orders"))) == 1
    core.run(lambda draft: pop_messages(draft, pop, 10_000, lambda count: 0))
