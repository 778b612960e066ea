"""Look-ups by key and id: whom the client asks, and which of the messages that brokers return it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerFailed, RequestRefused, Unserved
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.index_queries import KEY_COUNT_MAX, OffsetId, parse_offset_id
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_queues import QueueScript, serve_queues
from tests.harness.scripted_remoting import Reaction, RouteScript, ScriptedServer, make_route
from tests.harness.stored_records import StoredRecord

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in range(2))
OTHER = MessageQueue("orders", "broker-b", 0)


def record(offset: int, keys: str = "k", queue_id: int = 0, **more: Any) -> bytes:
    properties = {"KEYS": keys, "UNIQ_KEY": f"id-{offset}"}
    return StoredRecord(properties=properties, queue_offset=offset, queue_id=queue_id, **more).encode()


def answer(*records: bytes) -> Callable[[RemotingCommand], Reaction | None]:
    """Returns the script of a broker that finds these records for each key."""

    def respond(request: RemotingCommand) -> Reaction | None:
        if request.code != RequestCode.QUERY_MESSAGE:
            return None
        if not records:
            return request.make_response(ResponseCode.QUERY_NOT_FOUND, remark="can not find message")
        return request.make_response(0, body=b"".join(records))

    return respond


def serve(*records: bytes) -> QueueScript:
    return QueueScript(others=answer(*records))


def found(client: RemotingClient, *queues: MessageQueue, key: str | None = "k", **more: Any) -> dict[Any, list[int]]:
    rows = client.query_messages(queues, key, more.pop("msg_id", None), **more).rows
    return {queue: batch.column("queueOffset").to_pylist() for queue, batch in rows.items()}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("7F00000100002A9F0000000000000064", OffsetId("127.0.0.1", 10911, 100)),
        ("7f00000100002a9f000000000000000a", OffsetId("127.0.0.1", 10911, 10)),
        ("00000000000000000000000000000001" + "00002A9F" + "0000000000000064", OffsetId("::1", 10911, 100)),
        ("7F000001000118B4AAC2000000000000", None),  # an id of a client: its process has number 1
        ("7F00000100002A9F", None),
        ("id-7", None),
        ("", None),
    ],
)
def test_ids_of_brokers_are_told_apart(text: str, parsed: OffsetId | None) -> None:
    assert parse_offset_id(text) == parsed


def test_messages_with_the_same_hash_are_left_out() -> None:
    records = [record(1), record(2, keys="a k"), record(3, keys="kk"), record(4, topic="payments"), record(5, keys="")]
    with serve_queues(serve(*records), queues=2) as (client, [server]):
        assert found(client, FIRST, SECOND) == {FIRST: [1, 2]}
        (request,) = (each for each in server.requests if each.code == RequestCode.QUERY_MESSAGE)
    assert request.fields["topic"] == "orders"
    assert {name: request.fields.get(name) for name in ("key", "maxNum", "beginTimestamp", "_UNIQUE_KEY_QUERY")} == {
        "key": "k",
        "maxNum": "64",
        "beginTimestamp": "0",
        "_UNIQUE_KEY_QUERY": None,
    }


def test_each_broker_is_asked_once_and_its_messages_are_sorted_by_queue() -> None:
    here = [record(7), record(3, queue_id=1), record(8), record(7)]
    with serve_queues(serve(*here), serve(record(5)), queues=2) as (client, servers):
        assert found(client, FIRST, SECOND, OTHER) == {FIRST: [7, 8], SECOND: [3], OTHER: [5]}
        assert [server.count(RequestCode.QUERY_MESSAGE) for server in servers] == [1, 1]
        assert found(client, SECOND) == {SECOND: [3]}
        assert [server.count(RequestCode.QUERY_MESSAGE) for server in servers] == [2, 1]


def test_times_of_the_index_are_seconds_and_the_client_compares_the_rest() -> None:
    with serve_queues(serve(record(1, store_ms=4_999), record(2, store_ms=5_000))) as (client, [server]):
        assert found(client, FIRST, begin_ms=5_000) == {FIRST: [2]}
        assert server.requests[-1].fields["beginTimestamp"] == "4000"


def test_topics_have_their_namespace_on_brokers() -> None:
    script = QueueScript(others=answer(record(1), record(2, topic="shop%orders")))
    with ScriptedServer(script) as server:
        routes = RouteScript({"shop%orders": make_route({"broker-a": {0: server.address}}, 1)})
        with ScriptedServer(routes) as name_server:
            client = RemotingClient(RemotingChannel(Connection(name_servers=name_server.address, namespace="shop")))
            assert found(client, FIRST) == {FIRST: [2]}
            assert server.requests[-1].fields["topic"] == "shop%orders"
            client.close()


@pytest.mark.parametrize(("count", "may_lack"), [(KEY_COUNT_MAX - 1, False), (KEY_COUNT_MAX, True)])
def test_a_broker_that_returns_its_most_may_have_more(count: int, may_lack: bool) -> None:
    records = [record(number, keys="other" if number else "k") for number in range(count)]
    with serve_queues(serve(*records)) as (client, _):
        assert client.query_messages([FIRST], "k", None).may_lack_older is may_lack


def test_nothing_is_found() -> None:
    with serve_queues(serve()) as (client, _):
        assert found(client, FIRST) == {}


def test_an_id_of_a_client_is_queried_as_such() -> None:
    with serve_queues(serve(record(1), record(2))) as (client, [server]):
        assert found(client, FIRST, key=None, msg_id="id-2") == {FIRST: [2]}
        assert (server.requests[-1].fields["key"], server.requests[-1].fields["_UNIQUE_KEY_QUERY"]) == ("id-2", "true")
        assert found(client, FIRST, key="other", msg_id="id-2") == {}


class ViewScript:
    """A broker that has one message, at a physical offset."""

    def __init__(self, refusal: str = "can not find message by the offset, 9") -> None:
        self.refusal = refusal

    def __call__(self, request: RemotingCommand) -> Reaction | None:
        if request.code == RequestCode.QUERY_MESSAGE:
            return request.make_response(ResponseCode.QUERY_NOT_FOUND)
        if request.code != RequestCode.VIEW_MESSAGE_BY_ID:
            return None
        if request.fields["offset"] == "100":
            return request.make_response(0, body=record(4, physical_offset=100))
        return request.make_response(ResponseCode.SYSTEM_ERROR, remark=self.refusal)


def make_id(server: ScriptedServer, physical_offset: int) -> str:
    return f"7F000001{server.port:08X}{physical_offset:016X}"


def test_the_broker_whose_address_is_in_an_id_is_asked_for_its_physical_offset() -> None:
    """Its index does not have this id, and another broker has something else there."""
    scripts = [QueueScript(others=ViewScript()) for _ in range(2)]
    with serve_queues(*scripts) as (client, servers):
        assert found(client, FIRST, OTHER, key=None, msg_id=make_id(servers[1], 100)) == {OTHER: [4]}
        assert [server.count(RequestCode.VIEW_MESSAGE_BY_ID) for server in servers] == [0, 1]
        assert found(client, FIRST, OTHER, key=None, msg_id=make_id(servers[0], 9)) == {}
        assert found(client, FIRST, OTHER, key="other", msg_id=make_id(servers[1], 100)) == {}


def test_an_id_with_an_unknown_address_is_not_looked_up() -> None:
    with serve_queues(serve()) as (client, [server]):
        with pytest.raises(Unserved, match=r"^no broker of topic orders has address 10\.0\.0\.1:10911 of this id$"):
            client.query_messages([FIRST], None, "0A00000100002A9F0000000000000064")
        assert server.count(RequestCode.QUERY_MESSAGE) == 0


def test_refusals_are_reported() -> None:
    script = QueueScript(others=ViewScript("store is gone"))
    refused = pytest.raises(RequestRefused, match=r"VIEW_MESSAGE_BY_ID with SYSTEM_ERROR .*store is gone")
    with serve_queues(script) as (client, [server]), refused:
        client.query_messages([FIRST], None, make_id(server, 9))


def test_a_damaged_response_is_reported() -> None:
    refused = pytest.raises(BrokerFailed, match="QUERY_MESSAGE cannot be read: a message in it is damaged")
    with serve_queues(serve(record(1)[:-1])) as (client, _), refused:
        client.query_messages([FIRST], "k", None)


def test_a_server_without_an_index_is_named() -> None:
    with serve_queues(QueueScript()) as (client, _):
        with pytest.raises(Unserved, match=r"^the server at 127\.0\.0\.1:\d+ keeps no index$"):
            client.query_messages([FIRST], "k", None)
        with pytest.raises(Unserved, match="light message queues"):
            client.query_messages([MessageQueue("%LMQ%a", "broker-a", 0)], "k", None)
