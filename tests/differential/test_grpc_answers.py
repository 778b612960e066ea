"""Single requests of `apache.rocketmq.v2`, good and bad, get the same codes and texts from both servers."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from processes.apache.administration import Administration
from processes.apache.cluster import make_proxied_cluster
from processes.apache.releases import RELEASE_5, Release
from rmqpull_broker.testing import running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.rpc_client import RpcClient

TOPICS = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY")
LATER_S = 4_000_000_000
NEWER: Any = 77
"""A number that no enumeration has yet."""


def resource(name: str) -> v2.Resource:
    return v2.Resource(name=name)


def make_send(
    topic: str = "t-normal", *, body: bytes = b"body", user: dict[str, str] | None = None, **system: Any
) -> Any:
    """Returns a SendMessage of one message."""
    properties = v2.SystemProperties(**{"message_id": "01" + "A" * 32, "message_type": 1, **system})
    message = v2.Message(topic=resource(topic), body=body, system_properties=properties, user_properties=user or {})
    return rpc.SendMessageRequest(messages=[message])


def make_due(seconds: int) -> Any:
    made = v2.SystemProperties()
    made.delivery_timestamp.FromSeconds(seconds)
    return made.delivery_timestamp


def make_recall_handle(topic: str, broker: str) -> str:
    """Returns a handle of a message that was due long ago."""
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} 1 ID".encode()).decode()


NAMES = {
    "empty": "",
    "blank": " ",
    "illegal": "a b",
    "of-128": "x" * 128,
    "long": "x" * 256,
    "system": "SCHEDULE_TOPIC_XXXX",
    "unknown": "nobody",
}
ENDPOINTS = v2.Endpoints(scheme=v2.IPv4, addresses=[v2.Address(host="127.0.0.1", port=8081)])

SENDS: dict[str, Any] = {
    "nothing": rpc.SendMessageRequest(),
    "good": make_send(),
    "other-topics": rpc.SendMessageRequest(messages=[*make_send().messages, *make_send("t-fifo").messages]),
    "no-id": make_send(message_id=""),
    "blank-tag": make_send(tag=" "),
    "tag-with-bar": make_send(tag="a|b"),
    "blank-key": make_send(keys=["a", " "]),
    "key-with-control": make_send(keys=["a\x01"]),
    "reserved-property": make_send(user={"TAGS": "a"}),
    "property-with-control": make_send(user={"a\x01": "b"}),
    "value-with-control": make_send(user={"a": "b\x01"}),
    "empty-property": make_send(user={"": "b"}),
    "long-group": make_send("t-fifo", message_type=2, message_group="g" * 65),
    "blank-group": make_send("t-fifo", message_type=2, message_group=" "),
    "group-with-control": make_send("t-fifo", message_type=2, message_group="g\x01"),
    "no-group": make_send("t-fifo", message_type=2),
    "large-body": make_send(body=b"x" * (4 * 1024 * 1024 + 1)),
    "far-delay": make_send("t-delay", message_type=3, delivery_timestamp=make_due(LATER_S)),
    "past-delay": make_send("t-delay", message_type=3, delivery_timestamp=make_due(1)),
    "large-stored-properties": make_send(trace_context="t" * 32_768),
    "conflict-and-bad-body": make_send("t-fifo", body=b""),
    "unknown-and-bad-body": make_send("nobody", body=b""),
    "retry-topic-unknown": make_send("%RETRY%nobody"),
    "no-delay": make_send("t-delay", message_type=3),
    "delay-and-group": make_send("t-delay", message_type=3, message_group="g", delivery_timestamp=make_due(1)),
    "delay-to-normal": make_send(message_type=3, delivery_timestamp=make_due(1)),
    "group-to-normal": make_send(message_type=2, message_group="g"),
    "half-to-normal": make_send(message_type=4),
    "half-without-recovery": make_send("t-transaction", message_type=4),
    "half-with-group": make_send("t-transaction", message_type=4, message_group="g"),
    "normal-to-fifo": make_send("t-fifo"),
    "lite": make_send(message_type=5),
    "priority": make_send(message_type=6),
    "priority-to-normal": make_send(message_type=6, priority=1),
    "priority-to-priority": make_send("t-priority", message_type=6, priority=1),
    "high-priority": make_send("t-priority", message_type=6, priority=2_147_483_647),
    "negative-priority": make_send("t-priority", message_type=6, priority=-1),
    "no-priority": make_send("t-priority", message_type=6),
    "priority-and-group": make_send("t-priority", message_type=6, priority=1, message_group="g"),
    "group-and-priority": make_send("t-fifo", message_type=2, priority=1, message_group="g"),
    "delay-and-priority": make_send("t-delay", message_type=3, priority=1, delivery_timestamp=make_due(1)),
    "half-and-priority": make_send("t-transaction", message_type=4, priority=1),
    "priority-as-property": make_send("t-priority", user={"_SYS_MSG_PRIORITY_": "1"}),
    "lite-as-property": make_send(user={"__LITE_TOPIC": "a"}),
    "origin-as-property": make_send(user={"ORIGIN_GROUP": "a"}),
    "newer-type": make_send(message_type=NEWER),
    "no-type": make_send(message_type=0),
    "newer-encoding": make_send(body_encoding=NEWER),
    **{f"topic-{kind}": make_send(name) for kind, name in NAMES.items()},
}
ENDS: dict[str, Any] = {
    "no-id": rpc.EndTransactionRequest(topic=resource("t-transaction"), resolution=v2.COMMIT),
    "blank-id": rpc.EndTransactionRequest(topic=resource("t-transaction"), transaction_id=" ", resolution=v2.COMMIT),
    "unknown-id": rpc.EndTransactionRequest(topic=resource("t-transaction"), transaction_id="x", resolution=v2.COMMIT),
    "newer-resolution": rpc.EndTransactionRequest(
        topic=resource("t-transaction"), transaction_id="x", resolution=NEWER, source=NEWER
    ),
    **{
        f"topic-{kind}": rpc.EndTransactionRequest(topic=resource(name), transaction_id="x", resolution=v2.COMMIT)
        for kind, name in NAMES.items()
    },
}
RECALLS: dict[str, Any] = {
    "empty": rpc.RecallMessageRequest(topic=resource("t-delay")),
    "bad": rpc.RecallMessageRequest(topic=resource("t-delay"), recall_handle="bad"),
    "normal": rpc.RecallMessageRequest(topic=resource("t-normal"), recall_handle="bad"),
    "unknown-broker": rpc.RecallMessageRequest(
        topic=resource("t-delay"), recall_handle=make_recall_handle("x", "nobody")
    ),
    "other-topic": rpc.RecallMessageRequest(
        topic=resource("t-delay"), recall_handle=make_recall_handle("x", "broker-a")
    ),
    "too-late": rpc.RecallMessageRequest(
        topic=resource("t-delay"), recall_handle=make_recall_handle("t-delay", "broker-a")
    ),
    **{
        f"topic-{kind}": rpc.RecallMessageRequest(topic=resource(name), recall_handle="x")
        for kind, name in NAMES.items()
    },
}
ROUTES: dict[str, Any] = {
    "good": rpc.QueryRouteRequest(topic=resource("t-normal"), endpoints=ENDPOINTS),
    "priority": rpc.QueryRouteRequest(topic=resource("t-priority"), endpoints=ENDPOINTS),
    **{
        f"topic-{kind}": rpc.QueryRouteRequest(topic=resource(name), endpoints=ENDPOINTS)
        for kind, name in NAMES.items()
    },
}
ASSIGNMENTS: dict[str, Any] = {
    "good": rpc.QueryAssignmentRequest(topic=resource("t-normal"), group=resource("g"), endpoints=ENDPOINTS),
    **{
        f"topic-{kind}": rpc.QueryAssignmentRequest(topic=resource(name), group=resource("g"), endpoints=ENDPOINTS)
        for kind, name in NAMES.items()
    },
    **{
        f"group-{kind}": rpc.QueryAssignmentRequest(
            topic=resource("t-normal"), group=resource(name), endpoints=ENDPOINTS
        )
        for kind, name in NAMES.items()
    },
}
HEARTBEATS: dict[str, Any] = {
    "without-settings": rpc.HeartbeatRequest(group=resource("g"), client_type=v2.PUSH_CONSUMER),
    "newer-type": rpc.HeartbeatRequest(group=resource("g"), client_type=NEWER),
    "no-group": rpc.HeartbeatRequest(client_type=v2.SIMPLE_CONSUMER),
}
ENDINGS: dict[str, Any] = {
    "without-settings": rpc.NotifyClientTerminationRequest(group=resource("g")),
    "no-group": rpc.NotifyClientTerminationRequest(),
}
REQUESTS = {
    "SendMessage": SENDS,
    "EndTransaction": ENDS,
    "RecallMessage": RECALLS,
    "QueryRoute": ROUTES,
    "QueryAssignment": ASSIGNMENTS,
    "Heartbeat": HEARTBEATS,
    "NotifyClientTermination": ENDINGS,
}


NO_LANGUAGE = "the proxy fails in Java, since the request has no header with a language"
DIFFERENT = {
    ("SendMessage", "negative-priority"): "the proxy adds where it failed in Java; the code is the same",
    ("NotifyClientTermination", "without-settings"): NO_LANGUAGE,
    ("NotifyClientTermination", "no-group"): NO_LANGUAGE,
}
"""What differs, and why. A request that is answered alike must not be here."""


@pytest.mark.parametrize("client_id", ["tester", ""], ids=["a-client", "no-client-id"])
def test_both_servers_answer_alike(apache_release: Release, tmp_path: Path, client_id: str) -> None:
    if apache_release is not RELEASE_5:
        pytest.skip("the emulator answers as a proxy of 5.5")
    with running_broker(remoting=True) as broker, make_proxied_cluster(tmp_path, release=apache_release) as cluster:
        for administration in (Administration(broker.remoting_addresses[0]), cluster.administration):
            for topic_type in TOPICS:
                administration.create_topic(f"t-{topic_type.lower()}", 2, attributes={"message.type": topic_type})
        emulator = answer_all(RpcClient(broker.endpoints, client_id))
        real = answer_all(RpcClient(cluster.proxy.address, client_id))
    expected = set(DIFFERENT) if client_id else set()
    assert {key: (emulator[key], real[key]) for key in real if (emulator[key] != real[key]) != (key in expected)} == {}


def answer_all(client: RpcClient) -> dict[tuple[str, str], tuple[str, str]]:
    """Returns the code and the text that each request gets."""
    answers = {
        (method, name): answer(client, method, request)
        for method, requests in REQUESTS.items()
        for name, request in requests.items()
    }
    client.channel.close()
    return answers


def answer(client: RpcClient, method: str, request: Any) -> tuple[str, str]:
    """Returns the name of the code and its text."""
    status = client.call(method, request).status
    return v2.Code.Name(status.code), status.message
