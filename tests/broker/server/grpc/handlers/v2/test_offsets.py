"""UpdateOffset, GetOffset and QueryOffset over gRPC (rules 3.5.1, 3.5.2, 3.11, 6.1)."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.core.state import room
from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from tests.harness.rpc_client import Connect, RpcClient

# --- UpdateOffset -----------------------------------------------------------------------------------------------------


SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"), id=0)
UNKNOWN = v2.MessageQueue(topic=v2.Resource(name="unknown"), id=0)
NO_SUCH_QUEUE = v2.MessageQueue(topic=v2.Resource(name="single"), id=7)


@pytest.fixture
def reader(client: RpcClient) -> RpcClient:
    """A client whose group "readers" exists, because it has pulled."""
    client.pull(SINGLE, 0, group="readers")
    return client


@pytest.mark.parametrize("offsets", [(5,), (5, 9), (9, 5), (0,), (1 << 62,)])
def test_the_last_offset_replaces_any_other(reader: RpcClient, offsets: tuple[int, ...]) -> None:
    for offset in offsets:
        assert reader.update_offset("readers", SINGLE, offset) == "OK"
    assert reader.get_offset("readers", SINGLE) == ("OK", offsets[-1])


def test_a_group_must_have_pulled_before(client: RpcClient) -> None:
    assert client.update_offset("strangers", SINGLE, 1) == "CONSUMER_GROUP_NOT_FOUND"
    assert client.update_offset("", SINGLE, 1) == "CONSUMER_GROUP_NOT_FOUND"


def test_the_group_is_missed_before_the_topic(reader: RpcClient) -> None:
    assert reader.update_offset("strangers", UNKNOWN, 1) == "CONSUMER_GROUP_NOT_FOUND"
    assert reader.update_offset("readers", UNKNOWN, 1) == "TOPIC_NOT_FOUND"


def test_the_queue_id_is_not_checked(reader: RpcClient) -> None:
    assert reader.update_offset("readers", NO_SUCH_QUEUE, 4) == "OK"
    assert reader.get_offset("readers", NO_SUCH_QUEUE) == ("OK", 4)


def test_the_offset_minus_one_reads_as_not_found(reader: RpcClient) -> None:
    assert reader.update_offset("readers", SINGLE, -1) == "OK"
    assert reader.get_offset("readers", SINGLE)[0] == "OFFSET_NOT_FOUND"


def test_a_queue_without_a_broker_is_the_brokers_own(reader: RpcClient) -> None:
    named = v2.MessageQueue(topic=v2.Resource(name="single"), id=0, broker=v2.Broker(name="broker-a"))
    assert reader.update_offset("readers", named, 3) == "OK"
    assert reader.get_offset("readers", SINGLE) == ("OK", 3)


def test_update_offset_needs_a_client_id(broker: RunningBroker, connect: Connect) -> None:
    assert connect(broker.endpoints, client_id="").update_offset("readers", SINGLE, 1) == "CLIENT_ID_REQUIRED"


# --- GetOffset --------------------------------------------------------------------------------------------------------


def test_a_queue_never_written_has_no_offset(client: RpcClient) -> None:
    assert client.get_offset("anybody", SINGLE)[0] == "OFFSET_NOT_FOUND"


def test_a_new_queue_starts_at_zero_for_every_group(client: RpcClient) -> None:
    client.send_bodies("single", b"first")
    assert client.get_offset("anybody", SINGLE) == ("OK", 0)


def test_a_query_creates_no_group(client: RpcClient) -> None:
    client.send_bodies("single", b"first")
    client.get_offset("anybody", SINGLE)
    assert client.update_offset("anybody", SINGLE, 1) == "CONSUMER_GROUP_NOT_FOUND"


def test_an_unknown_topic_has_no_offset_rather_than_an_error_of_its_own(client: RpcClient) -> None:
    assert client.get_offset("anybody", UNKNOWN)[0] == "OFFSET_NOT_FOUND"


def test_groups_and_queues_have_separate_offsets(client: RpcClient) -> None:
    second = v2.MessageQueue(topic=v2.Resource(name="orders"), id=1)
    for group in ("a", "b"):
        client.pull(SINGLE, 0, group=group)
    for group, queue, offset in (("a", SINGLE, 1), ("b", SINGLE, 2), ("a", second, 3)):
        client.update_offset(group, queue, offset)
    assert [client.get_offset(*key) for key in (("a", SINGLE), ("b", SINGLE), ("a", second))] == [
        ("OK", 1),
        ("OK", 2),
        ("OK", 3),
    ]


def test_get_offset_needs_a_client_id(broker: RunningBroker, connect: Connect) -> None:
    assert connect(broker.endpoints, client_id="").get_offset("a", SINGLE)[0] == "CLIENT_ID_REQUIRED"


# --- QueryOffset ------------------------------------------------------------------------------------------------------


BEGINNING, END, TIMESTAMP = v2.QueryOffsetPolicy.BEGINNING, v2.QueryOffsetPolicy.END, v2.QueryOffsetPolicy.TIMESTAMP


def query(
    policy: v2.QueryOffsetPolicy, at_ms: int | None = None, topic: str = "single", queue_id: int = 0
) -> service.QueryOffsetRequest:
    queue = v2.MessageQueue(topic=v2.Resource(name=topic), id=queue_id)
    request = service.QueryOffsetRequest(message_queue=queue, query_offset_policy=policy)
    if at_ms is not None:
        request.timestamp.FromMilliseconds(at_ms)
    return request


@pytest.mark.parametrize("count", [0, 3])
def test_beginning_and_end_are_the_min_and_max_offset(client: RpcClient, count: int) -> None:
    for _ in range(count):
        client.send_bodies("single", b"x")
    assert client.call("QueryOffset", query(BEGINNING)).offset == 0
    assert client.call("QueryOffset", query(END)).offset == count


def test_a_time_finds_the_first_message_stored_then_or_later(client: RpcClient) -> None:
    client.send_bodies("single", b"x", b"x")
    messages = client.pull(v2.MessageQueue(topic=v2.Resource(name="single")), 0).messages
    stored_ms = messages[0].system_properties.store_timestamp.ToMilliseconds()
    # Messages of one request are stored in the same millisecond.
    for at_ms, offset in [(0, 0), (stored_ms, 0), (stored_ms + 1, 2), (stored_ms + 1_000_000, 2)]:
        assert client.call("QueryOffset", query(TIMESTAMP, at_ms)).offset == offset


def test_every_time_in_an_empty_queue_has_the_offset_zero(client: RpcClient) -> None:
    assert client.call("QueryOffset", query(TIMESTAMP, 1_700_000_000_000)).offset == 0


def beyond_all_years() -> service.QueryOffsetRequest:
    request = query(TIMESTAMP)
    request.timestamp.seconds = 1 << 62
    return request


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (query(END, topic="unknown"), "TOPIC_NOT_FOUND"),
        (query(END, queue_id=1), "BAD_REQUEST"),
        (query(END, queue_id=-1), "BAD_REQUEST"),
        (query(TIMESTAMP), "BAD_REQUEST"),
        (beyond_all_years(), "BAD_REQUEST"),
    ],
)
def test_a_bad_query_is_refused(client: RpcClient, request_: service.QueryOffsetRequest, code: str) -> None:
    assert client.code("QueryOffset", request_) == code


def test_query_offset_needs_a_client_id(broker: RunningBroker, connect: Connect) -> None:
    assert connect(broker.endpoints, client_id="").code("QueryOffset", query(END)) == "CLIENT_ID_REQUIRED"


def test_a_broker_has_room_for_so_many_topics_groups_and_offsets(
    broker: RunningBroker, reader: RpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(method: str, request: Any) -> str:
        response = reader.call(method, request)
        status = (response[0] if isinstance(response, list) else response).status
        assert status.code == v2.Code.TOO_MANY_REQUESTS
        return str(status.message)

    assert reader.update_offset("readers", SINGLE, 3) == "OK"
    topics, groups = broker.look(lambda state: (len(state.topics), len(state.groups)))
    for name, value in {"TOPICS_MAX": topics, "GROUPS_MAX": groups, "OFFSETS_OF_ANY_QUEUE_MAX": 1}.items():
        monkeypatch.setattr(room, name, value)
    assert "topic new is not created: " in refuse("PutTopic", admin.PutTopicRequest(name="new"))
    assert "group new is not created: " in refuse("PutGroup", admin.PutGroupRequest(name="new"))
    group = v2.Resource(name="new")
    pull = service.PullMessageRequest(group=group, message_queue=SINGLE, offset=0, batch_size=1)
    assert "group new is not created: " in refuse("PullMessage", pull)
    unknown = v2.MessageQueue(topic=v2.Resource(name="single"), id=9)
    update = service.UpdateOffsetRequest(group=v2.Resource(name="readers"), message_queue=unknown, offset=5)
    assert "1 consumer offsets are kept, the max" in refuse("UpdateOffset", update)
    assert reader.update_offset("readers", SINGLE, 4) == "OK"
