"""A real name server and a real broker understand our commands, and we understand theirs."""

from __future__ import annotations

import socket

import pytest

from processes.apache.access import Account
from processes.apache.cluster import ApacheCluster, make_guarded_cluster
from processes.apache.releases import Release
from rmqpull_client.transports.remoting.signing import sign_fields
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, decode_command, encode_command
from rmqpull_proto.remoting.frames import split_frames
from rmqpull_proto.remoting.headers import (
    GetRouteInfoRequestHeader,
    OffsetResponseHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetRequestHeader,
    TopicQueueRequestHeader,
)
from rmqpull_proto.remoting.routes import ClusterInfo, TopicList, TopicRoute
from tests.harness.apache import StartApache

SUBSCRIPTION = 4
"""The bit of a pull's system flag that says that the request has the subscription."""
NO_OFFSET = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
"""What a broker may respond to a query of a group that has no offset: 0, or nothing (rules 3.5.2)."""


def ask(address: str, *commands: RemotingCommand) -> dict[int, RemotingCommand]:
    """Sends commands over one connection, all before the first response, and returns the responses by ``opaque``."""
    host, port = address.rsplit(":", 1)
    received = bytearray()
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"".join(map(encode_command, commands)))
        frames: list[tuple[int, int]] = []
        while len(frames) < len(commands):
            got = connection.recv(1 << 16)
            assert got, "the server closed the connection"
            received += got
            frames = split_frames(memoryview(bytes(received)), 0, len(received))
    responses = [decode_command(bytes(received[start:end])) for start, end in frames]
    assert all(response.is_response for response in responses)
    return {response.opaque: response for response in responses}


@pytest.mark.parametrize("serialization", Serialization)
def test_routes_of_a_name_server(apache: ApacheCluster, apache_release: Release, serialization: Serialization) -> None:
    apache.administration.create_topic("wire-routes", 3)
    name_server, broker = apache.name_servers[0].address, apache.brokers[0].address
    fields = GetRouteInfoRequestHeader(topic="wire-routes").to_fields()
    unknown = GetRouteInfoRequestHeader(topic="wire-unknown").to_fields()
    responses = ask(
        name_server,
        RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, opaque=1, serialization=serialization),
        RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, opaque=2, serialization=serialization, version=0),
        RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, unknown, opaque=3, serialization=serialization),
        RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=4, serialization=serialization),
        RemotingCommand(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, opaque=5, serialization=serialization),
    )
    # 4.9 responds in the serialization of the request, 5.3 in JSON (rules 4.1).
    theirs = Serialization.JSON if apache_release.client.startswith("5.") else serialization
    assert {response.serialization for response in responses.values()} == {theirs}

    standard, dialect = (bytes(responses[opaque].body) for opaque in (1, 2))
    assert b'{"0":' in standard
    assert b"{0:" in dialect
    route = TopicRoute.decode(standard)
    assert TopicRoute.decode(dialect) == route
    assert [(data.broker_name, data.read_queue_nums) for data in route.queue_datas] == [("broker-a", 3)]
    assert route.broker_datas[0].broker_addrs == {0: broker}

    assert responses[3].code == ResponseCode.TOPIC_NOT_EXIST
    assert (responses[3].remark or "").startswith("No topic route info in name server for the topic: wire-unknown")
    assert ClusterInfo.decode(responses[4].body).brokers["broker-a"].broker_addrs == {0: broker}
    assert "wire-routes" in TopicList.decode(responses[5].body).topics


@pytest.mark.parametrize("serialization", Serialization)
def test_offsets_and_pulls_of_a_broker(apache: ApacheCluster, serialization: Serialization) -> None:
    topic, group = f"wire-pulls-{serialization.name}", "wire-group"
    apache.administration.create_topic(topic, 1)
    queue = TopicQueueRequestHeader(topic=topic, queue_id=0).to_fields()
    query = QueryConsumerOffsetRequestHeader(topic=topic, queue_id=0, consumer_group="wire-nobody")
    pull = PullMessageRequestHeader(
        topic=topic,
        queue_id=0,
        consumer_group=group,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    responses = ask(
        apache.brokers[0].address,
        RemotingCommand(RequestCode.GET_MAX_OFFSET, queue, opaque=1, serialization=serialization),
        RemotingCommand(RequestCode.QUERY_CONSUMER_OFFSET, query.to_fields(), opaque=2, serialization=serialization),
        RemotingCommand(RequestCode.PULL_MESSAGE, pull.to_fields(), opaque=3, serialization=serialization),
        RemotingCommand(9_999, opaque=4, serialization=serialization),
    )
    assert responses[1].code == ResponseCode.SUCCESS
    assert OffsetResponseHeader.from_fields(responses[1].fields).offset == 0
    assert responses[2].code in NO_OFFSET
    assert responses[3].code == ResponseCode.PULL_NOT_FOUND
    assert PullMessageResponseHeader.from_fields(responses[3].fields).next_begin_offset == 0
    assert responses[4].code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


READER = Account("wire-reader", "secret-of-reader", topics={"wire-signed": "SUB"}, groups={"wire-readers": "SUB"})


def test_a_guarded_broker_accepts_our_signature_alone(start_apache: StartApache) -> None:
    cluster = start_apache(make_guarded_cluster, accounts=[READER])
    cluster.administration.create_topic("wire-signed", 1)
    query = QueryConsumerOffsetRequestHeader(topic="wire-signed", queue_id=0, consumer_group="wire-readers").to_fields()

    def is_accepted(secret: str, serialization: Serialization) -> bool:
        fields = {**query, **sign_fields(query, b"", READER.access_key, secret)}
        command = RemotingCommand(RequestCode.QUERY_CONSUMER_OFFSET, fields, opaque=1, serialization=serialization)
        return ask(cluster.brokers[0].address, command)[1].code in NO_OFFSET

    assert [is_accepted(READER.secret_key, serialization) for serialization in Serialization] == [True, True]
    assert [is_accepted("another-secret", serialization) for serialization in Serialization] == [False, False]
