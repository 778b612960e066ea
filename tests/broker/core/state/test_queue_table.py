"""The table of what is kept for each queue of each group."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given

from rmqpull_broker.core.admin.groups import delete_group, drop_group
from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.model import GroupConfig, MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import list_groups_on, list_topics_of
from rmqpull_broker.core.state.facts import GroupPut, OffsetsCommitted, OffsetsReset, Popped, PoppedInOrder
from rmqpull_broker.core.state.queue_table import GroupQueue, QueueTable
from rmqpull_broker.core.steps import STEP_ENTRIES
from tests.harness.core import CoreHarness
from tests.harness.steps import run_steps

KEYS = st.tuples(
    st.sampled_from(["readers", "writers", "others"]),
    st.builds(MessageQueue, st.sampled_from(["orders", "bills"]), st.just("broker-a"), st.integers(0, 2)),
)
CHANGES = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers()),
    st.tuples(st.just("pop"), KEYS, st.none()),
    st.tuples(st.just("drop_group"), KEYS, st.none()),
    st.tuples(st.just("drop_topic"), KEYS, st.none()),
)


@given(st.lists(CHANGES, max_size=30))
def test_it_holds_what_a_dict_would(changes: list[tuple[str, GroupQueue, int | None]]) -> None:
    table, plain = QueueTable[int | None](), dict[GroupQueue, int | None]()
    for change, (group, queue), value in changes:
        match change:
            case "put":
                table[group, queue] = plain[group, queue] = value
            case "pop":
                assert table.pop((group, queue), None) == plain.pop((group, queue), None)
            case "drop_group":
                table.drop_group(group)
                plain = {key: at for key, at in plain.items() if key[0] != group}
            case "drop_topic":
                table.drop_topic(queue.topic)
                plain = {key: at for key, at in plain.items() if key[1].topic != queue.topic}
        assert (len(table), {**table}, {**table.copy()}) == (len(plain), plain, plain)
        assert dict(entry for piece in table.walk() for entry in piece) == plain
        assert table.get((group, queue), 7) == plain.get((group, queue), 7)
        assert set(table.list_keys_of_group(group)) == {key for key in plain if key[0] == group}
        assert set(table.list_topics_of(group)) == {each.topic for name, each in plain if name == group}
        of_topic = {key: at for key, at in plain.items() if key[1].topic == queue.topic}
        assert set(table.list_keys_of_topic(queue.topic)) == of_topic.keys()
        assert set(table.list_groups_on(queue.topic)) == {name for name, _ in of_topic}
        assert table.count_of_group(group) == sum(name == group for name, _ in plain)
        assert dict(entry for piece in table.walk_topic(queue.topic) for entry in piece) == of_topic


def test_it_is_walked_through_in_steps_whatever_changes_meanwhile() -> None:
    table = QueueTable(
        ((f"group-{number}", MessageQueue("orders", "broker-a", queue_id)), number)
        for number in range(3)
        for queue_id in range(STEP_ENTRIES)
    )
    pieces = table.walk()
    assert [len(next(pieces))] == [STEP_ENTRIES]
    table.drop_group("group-1")
    table["group-3", MessageQueue("orders", "broker-a", 0)] = 3
    assert {group for piece in pieces for (group, _), _ in piece} == {"group-2"}
    table.clear()
    assert (len(table), list(table), table.list_groups()) == (0, [], [])


class Unwalked(QueueTable[int]):
    """A table that refuses to show all that it has."""

    def __iter__(self) -> Iterator[GroupQueue]:
        raise AssertionError("all entries were looked at")

    def list_groups(self) -> list[str]:
        raise AssertionError("all groups were looked at")


@pytest.fixture
def unwalked() -> CoreHarness:
    """Two groups with an offset, a reset and messages in flight on two topics."""
    core = CoreHarness()
    core.state.consumer_offsets, core.state.resets = Unwalked(), Unwalked()
    core.topic(name="orders")
    core.topic(name="bills")
    for group in ("readers", "writers"):
        core.state.apply([GroupPut(GroupConfig(group))])
        for topic in ("orders", "bills"):
            queue = core.queue(topic=topic)
            core.state.apply([OffsetsCommitted(group, ((queue, 1),)), OffsetsReset(group, ((queue, 2),))])
            core.state.apply([Popped(group, queue, range(3), 5, 60_000), PoppedInOrder(group, queue, (1,), 5, 60_000)])
    return core


def list_kept(core: CoreHarness) -> list[tuple[str, str]]:
    """The groups and topics of the offsets that are kept."""
    offsets = core.state.consumer_offsets
    return [(group, topic) for group in ("readers", "writers") for topic in sorted(offsets.list_topics_of(group))]


def test_the_deletion_of_a_topic_looks_only_at_what_it_deletes(unwalked: CoreHarness) -> None:
    unwalked.run(lambda draft: delete_topic(draft, "orders"))
    assert list_kept(unwalked) == [("readers", "bills"), ("writers", "bills")]
    assert {queue.topic for _, queue in unwalked.state.popped.list_queues()} == {"bills"}
    assert len(unwalked.state.resets) == 4  # as Apache's broker keeps them


@pytest.mark.parametrize("keeps_offsets", [None, False, True], ids=["admin", "remoting", "remoting, keeps offsets"])
def test_the_deletion_of_a_group_looks_only_at_what_it_deletes(
    unwalked: CoreHarness, keeps_offsets: bool | None
) -> None:
    if keeps_offsets is None:
        unwalked.run(lambda draft: delete_group(draft, "readers"))
    else:
        unwalked.run(lambda draft: drop_group(draft, "readers", keeps_offsets=keeps_offsets))
    kept = [("readers", topic) for topic in ("bills", "orders") if keeps_offsets]
    assert list_kept(unwalked) == [*kept, ("writers", "bills"), ("writers", "orders")]
    assert unwalked.state.resets.list_groups_on("orders") == ["writers"]
    assert {group for group, _ in unwalked.state.popped.list_queues()} == {"writers"}


def test_groups_of_a_topic_and_topics_of_a_group_are_found_without_a_look_at_the_others(unwalked: CoreHarness) -> None:
    assert run_steps(list_groups_on(unwalked.state, "orders")) == ["readers", "writers"]
    assert run_steps(list_topics_of(unwalked.state, "readers")) == ["bills", "orders"]
