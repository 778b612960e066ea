"""Lite pull consumers: what they read, how they share the queues of a topic, and which offsets they set."""

from __future__ import annotations

import os
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_client import (
    BrokerUnavailable,
    Connection,
    MessageFilter,
    MessageQueue,
    OptionError,
    TopicNotFound,
    connect,
)
from rmqpull_client.consumers import LitePullConsumer, LitePullSettings, fetching
from rmqpull_client.model import EARLIEST_MS, ResetTarget
from tests.client.consumers.conftest import FROM_FIRST, WITH_PROXY, Cluster, poll_all, wait_for_shares
from tests.harness.broker_processes import StartBroker
from tests.harness.waiting import wait_until


def bodies_of(messages: Any) -> list[int]:
    return sorted(int(message.body) for message in messages)


@WITH_PROXY
def test_members_share_the_queues_as_they_come_and_go(cluster: Cluster) -> None:
    """Nothing is lost, and nothing before a consumer offset is repeated."""
    cluster.create_topic(4)
    cluster.send(*(b"%d" % number for number in range(20)))
    with cluster.start_member() as first:
        assert bodies_of(poll_all(first, 20)) == list(range(20))
        first.commit()
        with cluster.start_member() as second:
            wait_for_shares([first, second], [2, 2])
            cluster.send(*(b"%d" % number for number in range(20, 40)))
            assert bodies_of([*poll_all(first, 10), *poll_all(second, 10)]) == list(range(20, 40))
        wait_for_shares([first], [4])
        cluster.send(*(b"%d" % number for number in range(40, 48)))
        assert bodies_of(poll_all(first, 8)) == list(range(40, 48))
    with cluster.start_member() as third:
        assert third.poll(100) == []


def test_messages_are_columns_or_objects(cluster: Cluster) -> None:
    (queue,) = cluster.create_topic(1)
    cluster.send(b"0", b"1", b"2", tag="paid")
    with cluster.start_member() as consumer:
        first = consumer.poll(max_messages=1)
        table = consumer.poll_columns()
        assert (first[0].queue, first[0].queue_offset, first[0].body, first[0].tags) == (queue, 0, b"0", "paid")
        assert table.column("body").to_pylist() == [b"1", b"2"]
        assert table.column("topic").to_pylist() == [cluster.topic] * 2
        nothing = consumer.poll_columns(0)
        assert (nothing.num_rows, nothing.schema) == (0, table.schema)


def test_only_some_columns_are_read(cluster: Cluster) -> None:
    cluster.create_topic(1)
    cluster.send(b"0")
    consumer = cluster.make_consumer(replace(FROM_FIRST, columns=("body",)))
    consumer.subscribe(cluster.topic, "paid || sent")
    cluster.send(b"1", tag="paid")
    with consumer:
        tables = [consumer.poll_columns(), consumer.poll_columns(0)]
    assert [table.num_rows for table in tables] == [1, 0]
    for table in tables:
        assert table.schema.names == ["topic", "brokerName", "queueId", "queueOffset", "body"]


def test_brokers_filter(cluster: Cluster) -> None:
    cluster.create_topic(2)
    cluster.send(b"0", b"1", tag="paid")
    cluster.send(b"2", b"3", tag="sent")
    consumer = cluster.make_consumer()
    consumer.subscribe(cluster.topic, "sent || lost")
    with consumer:
        assert bodies_of(poll_all(consumer, 2)) == [2, 3]
        consumer.commit()
        assert [consumer.get_committed(queue) for queue in sorted(consumer.assignment)] == [2, 2]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (LitePullSettings(consume_from_where="CONSUME_FROM_FIRST_OFFSET"), [0, 1, 2]),
        (LitePullSettings(consume_from_where="CONSUME_FROM_TIMESTAMP", consume_timestamp_ms=0), [0, 1, 2]),
        (LitePullSettings(consume_from_where="CONSUME_FROM_TIMESTAMP"), [0, 1, 2]),
        (LitePullSettings(), [2]),
    ],
)
def test_a_group_without_offsets_starts_where_it_is_told(
    cluster: Cluster, settings: LitePullSettings, found: list[int]
) -> None:
    cluster.create_topic(1)
    cluster.send(b"0", b"1")
    with cluster.start_member(settings) as consumer:
        cluster.send(b"2")
        assert bodies_of(poll_all(consumer, len(found))) == found


def test_what_was_polled_is_committed_by_later_polls_and_at_the_end(cluster: Cluster) -> None:
    (queue,) = cluster.create_topic(1)
    cluster.send(*(b"%d" % number for number in range(6)))
    consumer = cluster.start_member(replace(FROM_FIRST, auto_commit_interval_ms=1_000))
    consumer.poll(max_messages=2)
    consumer._commit_due_s = 0.0  # a second later
    consumer.poll(max_messages=2)
    assert consumer.get_committed(queue) == 2
    consumer.close()
    consumer.close()
    assert consumer.get_committed(queue) == 4


def test_without_auto_commit_only_the_user_commits(cluster: Cluster) -> None:
    queues = cluster.create_topic(2)
    cluster.send(b"0", b"1", b"2", b"3")
    manual = replace(FROM_FIRST, auto_commit=False)
    with cluster.start_member(manual) as consumer:
        poll_all(consumer, 4)
    with cluster.start_member(manual) as consumer:
        assert bodies_of(poll_all(consumer, 4)) == [0, 1, 2, 3]
        consumer.commit({queues[0]: 1})
        assert consumer.get_committed(queues[0]) == 1
        consumer.commit()
    assert [cluster.make_consumer().get_committed(queue) for queue in queues] == [2, 2]


def test_what_a_failed_handler_had_got_last_is_repeated(cluster: Cluster) -> None:
    cluster.create_topic(1)
    cluster.send(b"0", b"1", b"2", b"3")

    def handle_until_the_third(consumer: LitePullConsumer) -> None:
        with consumer:
            for messages in iter(lambda: consumer.poll(max_messages=2), []):
                for message in messages:
                    if message.body == b"2":
                        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handle_until_the_third(cluster.start_member())
    with cluster.start_member() as consumer:
        assert bodies_of(poll_all(consumer, 2)) == [2, 3]


def test_a_long_queue_makes_no_other_wait(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if nothing in it passes the filter: it is read in parts, and a poll ends when its time is over."""
    monkeypatch.setattr(fetching, "_RANGE_ROWS", 2)
    first, second = cluster.create_topic(2)
    cluster.send(*[b"x"] * 20, queue=first, tag="sent")
    consumer = cluster.make_consumer()
    consumer.subscribe(cluster.topic, "paid")
    with consumer:
        assert consumer.poll(0) == []
        assert consumer.get_position(first) <= 2
        cluster.send(b"0", queue=second, tag="paid")
        assert bodies_of(poll_all(consumer, 1)) == [0]
        wait_until(lambda: not consumer.poll(10) and consumer.get_position(first) == 20, "passed over")


def test_an_assigned_queue_is_read_from_anywhere(cluster: Cluster) -> None:
    first, second = cluster.create_topic(2)
    cluster.send(*(b"%d" % number for number in range(5)), queue=first)
    cluster.send(b"9", queue=second)
    consumer = cluster.make_consumer()
    assert consumer.list_queues(cluster.topic) == [first, second]
    consumer.assign([first])
    with consumer:
        assert bodies_of(poll_all(consumer, 5)) == [0, 1, 2, 3, 4]
        consumer.seek(first, 3)
        assert bodies_of(poll_all(consumer, 2)) == [3, 4]
        consumer.seek_to_begin(first)
        assert consumer.get_position(first) == 0
        assert bodies_of(consumer.poll(max_messages=1)) == [0]
        consumer.seek_to_end(first)
        assert consumer.poll(0) == []
        consumer.seek_to_time(first, 0)
        consumer.pause([first])
        assert consumer.poll(300) == []
        consumer.assign([first, second])
        assert bodies_of(poll_all(consumer, 1)) == [9]
        consumer.resume([first])
        assert bodies_of(poll_all(consumer, 5)) == [0, 1, 2, 3, 4]
        consumer.commit()
        assert [consumer.get_committed(queue) for queue in (first, second)] == [5, 1]


def test_a_filter_that_changes_holds_for_what_is_returned_next(cluster: Cluster) -> None:
    (queue,) = cluster.create_topic(1)
    for body, tag in ((b"0", "paid"), (b"1", "sent"), (b"2", "paid"), (b"3", "sent")):
        cluster.send(body, tag=tag)
    with cluster.start_member() as consumer:
        assert bodies_of(consumer.poll(max_messages=1)) == [0]
        consumer.subscribe(cluster.topic, "sent")
        assert bodies_of(poll_all(consumer, 2)) == [1, 3]
        assert consumer.get_position(queue) == 4


@pytest.mark.processes
def test_a_broker_that_was_killed_is_read_again(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker({"orders": 1}, data_dir=tmp_path, remoting="127.0.0.1:0")
    address = broker.remoting_addresses[0]
    client = connect(Connection(name_servers=address))
    consumer = LitePullConsumer(Connection(name_servers=address, request_timeout_ms=300), "readers", FROM_FIRST)
    consumer.subscribe("orders")
    with consumer:
        client.publish("orders", pa.record_batch({"body": [b"0"]}))
        assert bodies_of(poll_all(consumer, 1)) == [0]
        consumer.commit()
        broker.kill()
        with pytest.raises(BrokerUnavailable):
            poll_all(consumer, 1)
        broker.start()
        client.publish("orders", pa.record_batch({"body": [b"1"]}))
        assert bodies_of(poll_all(consumer, 1)) == [1]
        assert len(consumer.assignment) == 1


def test_a_group_that_is_reset_by_brokers_goes_on_there(cluster: Cluster) -> None:
    (queue,) = cluster.create_topic(1)
    cluster.send(b"0", b"1", b"2")
    client = connect(Connection(name_servers=cluster.address))
    with cluster.start_member() as consumer:
        poll_all(consumer, 3)
        consumer.commit()
        reset = client.prepare_reset(cluster.group, [queue], ResetTarget(cluster.topic, EARLIEST_MS))
        assert reset is not None
        assert len(reset.members) == 1
        reset.run()
        assert bodies_of(poll_all(consumer, 3)) == [0, 1, 2]


def test_new_queues_are_read(cluster: Cluster) -> None:
    cluster.create_topic(1)
    with cluster.start_member() as consumer:
        _, new = cluster.create_topic(2)
        consumer.subscribe(cluster.topic)  # makes it rebalance now
        wait_for_shares([consumer], [2])
        cluster.send(b"0", queue=new)
        assert bodies_of(poll_all(consumer, 1)) == [0]


def test_a_listener_learns_of_changes(cluster: Cluster) -> None:
    queues = cluster.create_topic(2)
    seen: list[Any] = []
    settings = replace(FROM_FIRST, queue_listener=lambda *change: seen.append(change))
    with cluster.start_member(settings) as first, cluster.start_member() as second:
        wait_for_shares([first, second], [1, 1])
        wait_until(lambda: len(seen) == 2, "told of both changes")
        assert seen == [(cluster.topic, queues, frozenset(queues)), (cluster.topic, queues, first.assignment)]


def test_a_topic_is_subscribed_and_left_while_it_runs(cluster: Cluster) -> None:
    cluster.create_topic(2)
    with cluster.make_consumer() as consumer:
        assert consumer.poll(0) == []
        consumer.subscribe(cluster.topic)
        wait_for_shares([consumer], [2])
        consumer.unsubscribe(cluster.topic)
        assert not consumer.assignment


@pytest.mark.parametrize("page", ["README.md", "docs/consumers.md"])
def test_the_consumer_in_ten_lines_is_one(cluster: Cluster, page: str) -> None:
    """It runs as the page shows it, but for its address and names, until it has printed what was sent."""
    text = (Path(__file__).parents[3] / page).read_text(encoding="utf-8")
    (shown,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "poll()" in block)
    cluster.create_topic(2)
    cluster.send(b"0", b"1", tag="UA" if page == "README.md" else "paid")
    printed: list[bytes] = []

    def note(queue: MessageQueue, offset: int, body: bytes) -> None:
        printed.append(body)
        if len(printed) == 2:
            raise StopIteration

    for name, own in (("127.0.0.1:9876", cluster.address), ("flights", cluster.topic), ("orders", cluster.topic)):
        shown = shown.replace(f'"{name}"', f'"{own}"')
    with pytest.raises(StopIteration):
        exec(shown.replace('"readers"', f'"{cluster.group}"'), {"print": note})
    assert sorted(printed) == [b"0", b"1"]


@pytest.mark.parametrize("group", ["", "a b", "x" * 121, "DEFAULT_CONSUMER"])
def test_a_group_that_apache_refuses_is_refused(group: str) -> None:
    with pytest.raises(OptionError):
        LitePullConsumer("127.0.0.1:1", group)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(OptionError, match="A consumer needs name_servers"):
        LitePullConsumer(Connection("127.0.0.1:1"), "readers")
    with pytest.raises(OptionError, match="autoCommitIntervalMillis is 5: use 1000 or more"):
        LitePullConsumer("127.0.0.1:1", "readers", LitePullSettings(auto_commit_interval_ms=5))
    with pytest.raises(OptionError, match="columns: No such column: boddy"):
        LitePullConsumer("127.0.0.1:1", "readers", LitePullSettings(columns=("boddy",)))
    consumer = LitePullConsumer("127.0.0.1:1", "readers")
    with pytest.raises(OptionError, match="The consumer not running, please start it first"):
        consumer.poll()
    consumer.subscribe("orders", MessageFilter("a"))
    with pytest.raises(OptionError, match="Subscribe and assign are mutually exclusive"):
        consumer.assign([MessageQueue("orders", "a", 0)])
    with pytest.raises(OptionError, match=r"The specified topic\[a b\] contains illegal characters"):
        consumer.subscribe("a b")
    with pytest.raises(OptionError, match="max_messages is 0: use 1 or more"):
        consumer.poll(max_messages=0)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(consumer)


def test_a_missing_topic_and_a_foreign_queue_are_refused(cluster: Cluster) -> None:
    with pytest.raises(TopicNotFound):
        cluster.start_member()
    (queue,) = cluster.create_topic(1)
    with cluster.start_member() as consumer:
        with pytest.raises(OptionError, match="Seek offset illegal, seek offset = 9, min offset = 0, max offset = 0"):
            consumer.seek(queue, 9)
        with pytest.raises(OptionError, match="The message queue is not in assigned list"):
            consumer.get_position(queue._replace(queue_id=7))
        with pytest.raises(OptionError, match="maybe started once"):
            consumer.start()


@pytest.mark.processes
def test_a_fork_has_to_make_its_own(cluster: Cluster) -> None:
    cluster.create_topic(1)
    with cluster.start_member() as consumer:
        child = os.fork()
        if child == 0:
            try:
                consumer.close()  # must not say that the parent leaves
                consumer.poll(0)
            except OptionError as error:
                os._exit(7 if "made in another process" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        cluster.send(b"0")
        assert bodies_of(poll_all(consumer, 1)) == [0]
        assert len(consumer.assignment) == 1
