"""How the driver's side keeps the group's progress, and waits for topics, against a broker of a few dictionaries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading.stream_reader import RmqpullStreamReader
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds, MessageQueue, TopicBounds
from tests.connector.reading.test_stream_reader import ALL, IDLE, named, offset, reader

if TYPE_CHECKING:
    from tests.connector.conftest import FakeClient, ManualClock


def test_a_group_that_is_not_to_follow_is_left_where_it_is(broker: FakeClient) -> None:
    stream = reader(commitOffsets="false")
    stream.latestOffset(IDLE, ALL)
    stream.commit(IDLE)
    assert broker.commits == []


BROADCASTING = {"messageModel": "BROADCASTING", "clientId": "me", "startingOffsets": "group"}


def test_a_broadcasting_group_is_in_its_file_and_not_on_the_broker(broker: FakeClient, tmp_path: Path) -> None:
    options = BROADCASTING | {"localOffsetStoreDir": str(tmp_path)}
    broker.group_offsets = {0: 11}
    stream = reader(**options, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end == offset({0: 14, 1: 0}, {0: 10, 1: 0})  # the file knows nothing yet
    stream.latestOffset(end, ALL)
    broker.queues[0] = Bounds(10, 20)
    again = reader(**options)
    assert again.latestOffset(again.initialOffset(), ALL) == offset({0: 20, 1: 0}, {0: 14, 1: 0})
    assert (tmp_path / "me" / "g" / "offsets.json").exists()
    assert {"commit", "committed"}.isdisjoint(broker.calls)


def test_a_file_that_cannot_be_read_stops_a_query_that_begins_there_and_no_other(
    broker: FakeClient, tmp_path: Path
) -> None:
    options = BROADCASTING | {"localOffsetStoreDir": str(tmp_path)}
    path = tmp_path / "me" / "g" / "offsets.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    stream = reader(**options)
    with pytest.raises(OptionError, match="The consumer offsets cannot be read"):
        stream.latestOffset(stream.initialOffset(), ALL)
    assert reader(**options).latestOffset(IDLE, ALL) == IDLE


def commits_with_time(broker: FakeClient, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time that each connection has, in which something is committed."""
    timeouts_ms: list[int] = []

    class Timed:
        def __init__(self, timeout_ms: int) -> None:
            self.timeout_ms = timeout_ms

        def __getattr__(self, name: str) -> Any:
            if name == "set_consumer_offsets":
                timeouts_ms.append(self.timeout_ms)
            return getattr(broker, name)

    monkeypatch.setattr(
        "pyspark_rmqpull.reading.stream_reader.connect", lambda connection, _: Timed(connection.request_timeout_ms)
    )
    return timeouts_ms


def test_only_the_last_commit_of_available_now_may_take_as_long_as_any_request(
    broker: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts_ms = commits_with_time(broker, monkeypatch)
    stream = reader(requestTimeoutMs="7000", maxOffsetsPerTrigger="3")
    stream.prepareForTriggerAvailableNow()
    first = stream.latestOffset(stream.initialOffset(), ReadMaxRows(3))
    broker.queues[0] = Bounds(10, 99)  # what comes later is for the next run
    second = stream.latestOffset(first, ReadMaxRows(3))
    stream.latestOffset(second, ReadMaxRows(3))
    assert timeouts_ms == [2000, 7000]


def test_a_query_without_end_never_waits_so_long_for_a_commit(
    broker: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts_ms = commits_with_time(broker, monkeypatch)
    reader(requestTimeoutMs="7000").latestOffset(IDLE, ALL)
    assert timeouts_ms == [2000]


def test_a_topic_that_is_to_come_is_waited_for(broker: FakeClient, clock: ManualClock) -> None:
    def create() -> None:
        broker.other_topics["sales"] = TopicBounds("first", {MessageQueue("sales", "a", 0): Bounds(0, 3)})

    clock.on_sleep = create
    given = {"endpoints": "127.0.0.1:8081", "topic": "sales", "waitForTopic": "5m"}
    stream = RmqpullStreamReader(SourceOptions.from_options(given), ROW_SCHEMA, clock)
    assert stream.latestOffset(stream.initialOffset(), ALL)["offsets"] == {"sales": {"a": {"0": 3}}}
    assert broker.calls == ["bounds", "bounds"]


def test_a_queue_that_is_to_come_is_waited_for(broker: FakeClient, clock: ManualClock) -> None:
    clock.on_sleep = lambda: broker.queues.update({7: Bounds(0, 3)})
    given = {"endpoints": "127.0.0.1:8081", "assign": '{"orders":{"a":[7]}}', "waitForTopic": "5m"}
    stream = RmqpullStreamReader(SourceOptions.from_options(given), ROW_SCHEMA, clock)
    assert stream.latestOffset(stream.initialOffset(), ALL)["offsets"] == named({7: 3})
