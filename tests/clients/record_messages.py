"""Records messages of Apache's clients of several languages: as a real RocketMQ stores them, and as Java decodes them.

    .venv/bin/python -m tests.clients.record_messages [go] [python] [java] [node] [rust]

writes tests/integration/recorded_messages.json, which tests read: they need neither the clients nor the server. The
client for Go speaks to the broker, the gRPC clients to its proxy. Those that are not named keep what the file has of
them; without a name, all are recorded. They need Maven, Go, Node.js and Cargo.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from processes.apache.calls import Calls
from processes.apache.cluster import ProxiedCluster, make_proxied_cluster
from processes.apache.oracle import JavaOracle, to_text
from processes.apache.releases import RELEASE_5
from rmqpull_proto.remoting.codes import RequestCode
from tests.clients.programs.go.clients import GoClients
from tests.clients.programs.grpc.clients import LANGUAGES, GrpcClients

RECORDED = Path(__file__).parents[1] / "integration" / "recorded_messages.json"
GO = "go"
TEXT = "hello " * 700  # longer than 4 KiB: some clients compress it
SENT: tuple[dict[str, Any], ...] = (
    {"body": "plain"},
    {"body": "emoji \N{GRINNING FACE}", "tag": "red", "keys": ["k1", "k2"]},
    {"body": "properties", "properties": {"colour": "\N{LATIN SMALL LETTER U WITH DIAERESIS}", "size": "L x"}},
    {"body": TEXT, "tag": "long"},
)
DECODED = ("msgId", "body", "properties", "bornTimestamp", "reconsumeTimes")
IN_GROUP = {"body": "group", "messageGroup": "order-1"}
"""What each client sends, in the fields of the gRPC clients. The last one goes to a topic of the type FIFO."""


def main(names: Sequence[str]) -> None:
    """Records these clients."""
    with (
        tempfile.TemporaryDirectory() as folder,
        JavaOracle(RELEASE_5) as oracle,
        make_proxied_cluster(Path(folder) / "cluster") as cluster,
    ):
        for name in names:
            _send(cluster, Path(folder), name)
        clients = {name: _record(cluster, oracle, name) for name in names}
    if RECORDED.exists():
        clients = json.loads(RECORDED.read_text(encoding="utf-8"))["clients"] | clients
    recorded = {"server": RELEASE_5.server, "sent": [*SENT, IN_GROUP], "clients": clients}
    RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{RECORDED.name}: {RECORDED.stat().st_size} bytes, {', '.join(clients)}")


def _topics(client: str) -> tuple[str, str]:
    return f"recorded-{client}", f"recorded-{client}-groups"


def _send(cluster: ProxiedCluster, folder: Path, client: str) -> None:
    for topic, kind in zip(_topics(client), ("NORMAL", "FIFO"), strict=True):
        cluster.administration.create_topic(topic, 1, attributes={"message.type": kind})
    if client == GO:
        with GoClients(folder / client) as go:
            producer = go.start("producer", client, cluster.addresses, "recording")
            for topic, sent in _with_topics(client):
                producer.call("send", message=_in_go(topic, **sent))
        return
    start = next(start for language, start in LANGUAGES.items() if language == client)
    (folder / client).mkdir()
    with GrpcClients(start(folder / client)) as clients:
        grpc = clients.start("producer", cluster.proxy.address, topics=[*_topics(client)])
        for topic, sent in _with_topics(client):
            grpc.call("send", topic=topic, **sent)


def _with_topics(client: str) -> list[tuple[str, dict[str, Any]]]:
    topic, groups = _topics(client)
    return [*((topic, sent) for sent in SENT), (groups, IN_GROUP)]


def _in_go(topic: str, body: str, messageGroup: str | None = None, **fields: Any) -> dict[str, Any]:
    """A message of the classic clients, which have a property for the group."""
    properties = {**fields.get("properties", {}), **({"__SHARDINGKEY": messageGroup} if messageGroup else {})}
    message = {"topic": topic, "body": to_text(body.encode()), "properties": properties}
    message |= {"tags": fields["tag"]} if "tag" in fields else {}
    return message | ({"keys": " ".join(fields["keys"])} if "keys" in fields else {})


def _record(cluster: ProxiedCluster, oracle: JavaOracle, client: str) -> dict[str, Any]:
    stored = [_pull(cluster, topic) for topic in _topics(client)]
    decoded = [message for body in stored for message in oracle.decode_messages(body)]
    assert len(decoded) == len(SENT) + 1, (client, decoded)
    return {
        "stored": [to_text(body) for body in stored],
        "decoded": [{name: message[name] for name in DECODED} for message in decoded],
    }


def _pull(cluster: ProxiedCluster, topic: str) -> bytes:
    cluster.administration.wait_until_in_queues(topic, cluster.administration.find_masters())
    fields = {
        "consumerGroup": "recording",
        "topic": topic,
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
    }
    address = cluster.find_broker("broker-a").address
    return Calls().call(address, RequestCode.PULL_MESSAGE, fields).body


if __name__ == "__main__":
    main(sys.argv[1:] or [GO, *LANGUAGES])
