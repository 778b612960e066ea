"""Consumer offsets, and the bounds and times of queues, over the remoting protocol (rules 3.5, 3.11)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets
from rmqpull_broker.core.state import room
from rmqpull_broker.core.state.facts import QueuesTrimmed
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.heartbeats import HeartbeatData
from tests.harness.remoting_member import RemotingMember, make_membership
from tests.harness.waiting import wait_until

QUEUE = MessageQueue("orders", "broker-a", 0)
COMMIT = 1
"""The bit of a pull that says that it sets a consumer offset."""
Answer = tuple[int, str | None]


class Consumer:
    """A client that sends requests about queue 0 of topic ``orders`` and group ``readers``."""

    def __init__(self, broker: RunningBroker, member: RemotingMember) -> None:
        self.broker = broker
        self.member = member

    def ask(self, code: RequestCode, **fields: Any) -> RemotingCommand:
        given = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, **fields}
        return self.member.call(code, {name: value for name, value in given.items() if value is not None})

    def commit(self, offset: int | None, **fields: Any) -> Answer:
        response = self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=offset, **fields)
        return response.code, response.remark

    def commit_one_way(self, offset: int) -> None:
        fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": offset}
        self.member.start(RequestCode.UPDATE_CONSUMER_OFFSET, fields, is_oneway=True)

    def query(self, **fields: Any) -> int | str | None:
        response = self.ask(RequestCode.QUERY_CONSUMER_OFFSET, **fields)
        if response.code:
            assert response.code == ResponseCode.QUERY_NOT_FOUND
            return response.remark
        return int(response.fields["offset"])

    def find(self, code: RequestCode, **fields: Any) -> int:
        response = self.ask(code, **fields)
        assert response.code == 0, response
        return int(response.fields.get("offset") or response.fields["timestamp"])


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    with ExitStack() as opened:
        broker = opened.enter_context(running_broker({"orders": 1}, remoting=True, clock="manual"))
        yield Consumer(broker, opened.enter_context(RemotingMember(broker.remoting_addresses[0])))


@pytest.fixture
def reader(consumer: Consumer) -> Consumer:
    """The group exists, and the queue has a message for each of the times 10, 10, 20, 20, 40 after the start, in s."""
    consumer.member.beat("readers")
    for seconds in (10, 0, 10, 0, 20):
        consumer.broker.clock.advance(seconds=seconds)
        consumer.broker.send("orders", b"x")
    return consumer


# --- commits ----------------------------------------------------------------------------------------------------------


def test_an_offset_is_overwritten_whatever_it_was(reader: Consumer) -> None:
    for offset in (3, 1, 99):
        assert reader.commit(offset) == (0, None)
        assert reader.query() == offset
        assert reader.broker.consumer_offsets("readers", "orders") == {QUEUE: offset}
    assert reader.commit(-1) == (0, None)
    assert reader.broker.consumer_offsets("readers", "orders") == {}


def test_a_commit_without_a_response_counts_at_once_and_the_last_one_is_stored(reader: Consumer) -> None:
    for offset in (3, 2, 4, 4):
        reader.commit_one_way(offset)
        assert reader.query() == offset
    assert reader.commit(5) == (0, None)
    reader.commit_one_way(6)
    assert reader.query() == 6


def test_an_offset_can_be_deleted_without_a_response(reader: Consumer) -> None:
    reader.commit(3)
    reader.commit_one_way(-1)
    assert reader.query(setZeroIfNotFound="false") == "Not found, do not set to zero, maybe this group boot first"
    wait_until(lambda: reader.broker.consumer_offsets("readers", "orders") == {}, "deleted")


def test_a_pull_commits_at_once_and_whatever_it_finds(reader: Consumer) -> None:
    pull = {"queueOffset": 2, "maxMsgNums": 32, "sysFlag": COMMIT, "commitOffset": 9, "subVersion": 1}
    assert reader.ask(RequestCode.PULL_MESSAGE, **pull).code == 0
    assert reader.query() == 9
    reader.broker.change(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 3)]))
    assert reader.ask(RequestCode.PULL_MESSAGE, **pull).remark == "OFFSET_RESET"
    assert reader.query() == 9
    assert reader.ask(RequestCode.PULL_MESSAGE, **{**pull, "commitOffset": 8, "subVersion": 2}).code == 25
    assert reader.query() == 9


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"consumerGroup": "strangers"}, (26, "Group strangers not exist!")),
        ({"consumerGroup": ""}, (26, "Group  not exist!")),
        ({"consumerGroup": "strangers", "topic": "unknown", "queueId": None}, (26, "Group strangers not exist!")),
        ({"topic": "unknown"}, (17, "Topic unknown not exist!")),
        ({"topic": "unknown", "queueId": None}, (17, "Topic unknown not exist!")),
        ({"queueId": None}, (29, "QueueId is null, topic is orders")),
        ({"offset": None}, (29, "Offset is null, topic is orders")),
        ({"queueId": 7}, (0, None)),
    ],
)
def test_a_commit_is_checked_in_apaches_order(reader: Consumer, fields: dict[str, Any], answer: Answer) -> None:
    assert reader.commit(fields.pop("offset", 1), **fields) == answer


def test_an_offset_in_a_queue_that_the_topic_does_not_have_is_stored(reader: Consumer) -> None:
    reader.commit(3, queueId=7)
    assert reader.query(queueId=7) == 3


def test_a_commit_is_ignored_while_a_reset_is_pending(reader: Consumer) -> None:
    reader.commit(5)
    reader.broker.change(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 2)]))
    assert reader.commit(4) == (0, "Offset has been previously reset")
    reader.commit_one_way(4)
    assert reader.query() == 2


# --- queries ----------------------------------------------------------------------------------------------------------

BOOTS_FIRST = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def test_a_group_without_an_offset_begins_at_0_if_the_queue_has_its_first_message(consumer: Consumer) -> None:
    assert consumer.query() == BOOTS_FIRST
    assert consumer.query(consumerGroup="anybody", topic="unknown") == BOOTS_FIRST
    consumer.broker.send("orders", b"x")
    assert consumer.query() == 0
    assert consumer.query(setZeroIfNotFound="false") == "Not found, do not set to zero, maybe this group boot first"
    assert consumer.broker.look(lambda state: list(state.groups)) == []


def test_a_group_without_an_offset_is_not_found_when_the_first_message_is_deleted(reader: Consumer) -> None:
    reader.broker.change(lambda draft: draft.add(QueuesTrimmed(((QUEUE, 2),))))
    assert reader.query() == BOOTS_FIRST
    assert reader.find(RequestCode.GET_MIN_OFFSET) == 2


# --- bounds and times -------------------------------------------------------------------------------------------------


def test_bounds(reader: Consumer) -> None:
    asked = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    assert [reader.find(code) for code in asked] == [0, 5]
    assert [reader.find(code, queueId=7) for code in asked] == [0, 0]
    assert [reader.find(code, topic="unknown") for code in asked] == [0, 0]


def test_the_time_of_the_first_message(reader: Consumer) -> None:
    end_ms = reader.broker.clock.now_ms()
    assert reader.find(RequestCode.GET_EARLIEST_MSG_STORETIME) == end_ms - 30_000
    assert reader.find(RequestCode.GET_EARLIEST_MSG_STORETIME, queueId=7) == -1


@pytest.mark.parametrize(
    ("boundary", "offsets"),
    [
        (None, [0, 0, 2, 2, 4, 5]),
        ("LOWER", [0, 0, 2, 2, 4, 5]),
        ("other", [0, 0, 2, 2, 4, 5]),
        ("UPPER", [0, 1, 1, 3, 4, 4]),
    ],
)
def test_an_offset_is_found_by_time(reader: Consumer, boundary: str | None, offsets: list[int]) -> None:
    start_ms = reader.broker.clock.now_ms() - 40_000
    seconds = (5, 10, 15, 20, 40, 99)
    search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    found = [reader.find(search, timestamp=start_ms + s * 1_000, boundaryType=boundary) for s in seconds]
    assert found == offsets
    assert reader.find(search, topic="unknown", timestamp=start_ms, boundaryType=boundary) == 0


@pytest.mark.parametrize(
    "code", [RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_MAX_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP]
)
def test_a_request_without_its_queue_is_refused(reader: Consumer, code: RequestCode) -> None:
    assert reader.ask(code, queueId=None).code == ResponseCode.SYSTEM_ERROR


def test_a_broker_has_room_for_so_many_topics_groups_and_offsets(
    reader: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(code: RequestCode, fields: dict[str, Any], body: bytes = b"") -> str:
        response = reader.member.call(code, fields, body)
        assert response.code == ResponseCode.SYSTEM_BUSY
        return str(response.remark)

    assert reader.commit(3) == (0, None)
    topics, groups = reader.broker.look(lambda state: (len(state.topics), len(state.groups)))
    for name, value in {"TOPICS_MAX": topics, "GROUPS_MAX": groups, "OFFSETS_OF_ANY_QUEUE_MAX": 1}.items():
        monkeypatch.setattr(room, name, value)
    sent = dict(zip("abcdefghijk", ("p", "new", "TBW102", 4, 0, 0, 1, 0, "", 0, "false"), strict=True))
    assert "topic new is not created: " in refuse(RequestCode.SEND_MESSAGE_V2, sent, b"x")
    topic = {"topic": "new", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    put = {**topic, "topicFilterType": "SINGLE_TAG"}
    assert "topic new is not created: " in refuse(RequestCode.UPDATE_AND_CREATE_TOPIC, put)
    beat = HeartbeatData("tester", (make_membership("new"),)).encode()
    assert "group new is not created: " in refuse(RequestCode.HEART_BEAT, {}, beat)
    update = {"consumerGroup": "readers", "topic": "orders", "queueId": 1, "commitOffset": 5}
    assert "1 consumer offsets are kept, the max" in refuse(RequestCode.UPDATE_CONSUMER_OFFSET, update)
    assert reader.commit(4) == (0, None)
