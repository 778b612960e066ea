"""Any request over the remoting protocol gets an answer or a closed connection, and none fails in the broker's code.

Headers have fields and values of all kinds, bodies are sound ones with damage, or long repetitions, and the bytes of
frames are changed.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, encode_command
from tests.harness.hostile_input import damage_json, limit_cpu, repeat
from tests.harness.waiting import wait_until

QUEUE = {"topic": "orders", "brokerName": "broker-a", "queueId": 0}
SUBSCRIPTION = {"topic": "orders", "subString": "a || b", "subVersion": 1, "expressionType": "TAG"}
GROUP = {
    "groupName": "readers",
    "consumeType": "CONSUME_ACTIVELY",
    "messageModel": "CLUSTERING",
    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
    "subscriptionDataSet": [SUBSCRIPTION],
}
ACK = {"b": "AQ==", "c": "readers", "it": 60_000, "pt": 1, "q": 0, "r": "0", "rq": 0, "so": 0, "t": "orders"}
TOPIC_SETTINGS = {"topicName": "more", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "attributes": {}}
SOUND: dict[int, Any] = {
    RequestCode.HEART_BEAT: {"clientID": "c", "consumerDataSet": [GROUP], "producerDataSet": [{"groupName": "p"}]},
    RequestCode.CHECK_CLIENT_CONFIG: {"clientId": "c", "group": "readers", "subscriptionData": SUBSCRIPTION},
    RequestCode.LOCK_BATCH_MQ: {"clientId": "c", "consumerGroup": "readers", "mqSet": [QUEUE]},
    RequestCode.UNLOCK_BATCH_MQ: {"clientId": "c", "consumerGroup": "readers", "mqSet": [QUEUE]},
    RequestCode.BATCH_ACK_MESSAGE: {"brokerName": "broker-a", "acks": [ACK]},
    RequestCode.QUERY_ASSIGNMENT: {
        "topic": "orders",
        "consumerGroup": "readers",
        "clientId": "c",
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    },
    RequestCode.SET_MESSAGE_REQUEST_MODE: {"topic": "orders", "consumerGroup": "readers", "mode": "POP"},
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [TOPIC_SETTINGS]},
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: {"groupName": "readers", "retryMaxTimes": 3},
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [{"groupName": "readers"}]},
}
"""Bodies in JSON that Java's clients send."""

PARTS = (
    *(
        "[",
        "{",
        '{"a":',
        "[[],",
        "1,",
        "0",
        "9",
        "1e9",
        '"',
        "'",
        "\\",
        "\\u0041",
        "\\ud800",
        "null,",
        "\n",
        "=",
        "a=b\n",
    ),
    *('{"a":1,', "x:", "\0", "\x01", "\x02", "KEYS\x01a\x02", "\x00\x00\x00\x20"),
)
CODES = [int(code) for code in RequestCode]
NAMES = (
    *("topic", "consumerGroup", "queueId", "queueOffset", "sysFlag", "group", "a", "b", "c", "d", "e", "g", "i", "k"),
    *("properties", "expressionType", "subscription", "extraInfo", "offset", "commitOffset", "timestamp", "maxMsgNums"),
)
VALUES = st.sampled_from(
    (
        *("orders", "readers", "%RETRY%readers", "0", "1", "-1", "99999999999999999999", "", "x", "\x01\x02", "true"),
        *(
            "broker-a",
            "SQL92",
            "TAG",
            "a > 1",
            "0 1 60000 1 0 broker-a 0 0 0",
            "9" * 400,
            "x" * 300,
            "9223372036854775807",
        ),
    )
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A frame, mostly with a header and a body that are read."""
    code = draw(st.sampled_from(sorted(SOUND)) | st.sampled_from(CODES) | st.integers(-(1 << 31), (1 << 31) - 1))
    fields = draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
    fields = {"topic": "orders", "group": "readers", "consumerGroup": "readers", "queueId": "0", **fields}
    body = draw(
        st.binary(max_size=60)
        | repeat(PARTS, (20, 2_000, 60_000, 500_000)).map(lambda text: text.encode(errors="surrogatepass"))
        | damage_json(SOUND.get(code, QUEUE)).map(lambda value: json.dumps(value).encode())
    )
    serialization = draw(st.sampled_from(Serialization))
    frame = bytearray(encode_command(RemotingCommand(code, fields, body, 7, serialization=serialization)))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 3)))):
        frame[draw(st.integers(4, min(len(frame), 400) - 1))] = draw(st.integers(0, 255))
    return bytes(frame)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with running_broker({"orders": 2}, remoting=True) as broker:
        host, port = broker.remoting_addresses[0].split(":")
        yield host, int(port)
        wait_until(lambda: not any(list_held(broker)), "rid of all that the requests have held")


def list_held(broker: RunningBroker) -> list[int]:
    """What the broker holds for connections: themselves, unfinished frames, requests that wait, and clients."""
    server = broker._server
    assert server._remoting is not None
    assert server._remoting.dispatcher is not None
    return [
        len(server._remoting.connections),
        server._remoting._unfinished.held_bytes,
        server._remoting.dispatcher._shares.used,
        len(server._parker),
        server._pops.waiting_count,
        len(server.clients.peers),
    ]


def make_request(code: int, body: bytes) -> bytes:
    return encode_command(RemotingCommand(code, {"topic": "orders"}, body, 7))


PING = make_request(RequestCode.GET_BROKER_CLUSTER_INFO, b"")


@pytest.mark.edge
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests())
@example(make_request(RequestCode.HEART_BEAT, b"[" * 1_000_000))
@example(make_request(RequestCode.HEART_BEAT, b'{"a":' * 500_000))
@example(make_request(RequestCode.LOCK_BATCH_MQ, b'{"mqSet":' + b"0" * 4_000_000))
@limit_cpu
def test_any_request_gets_an_answer_or_a_closed_connection(
    address: tuple[str, int], caplog: pytest.LogCaptureFixture, frame: bytes
) -> None:
    with socket.create_connection(address, 30) as one:
        try:
            one.sendall(frame + PING)
            one.shutdown(socket.SHUT_WR)
            answers = one.makefile("rb").read()
        except ConnectionError:  # it is closed while the rest is sent
            answers = b""
    assert answers == b"" or len(answers) > 8
    assert [record for record in caplog.records if record.exc_info] == []
