"""The same messages of Apache's producer, as this broker and a real one give them to consumers (rules 4.7)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes.apache.calls import Calls
from processes.apache.cluster import ApacheCluster
from processes.apache.java_clients import JavaProducer, make_message
from processes.apache.oracle import JavaOracle
from processes.apache.releases import RELEASE_5, Release
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode
from tests.harness.waiting import wait_until

TOPIC = "sent-by-java"
MESSAGES: list[dict[str, Any]] = [
    {"body": "plain"},
    {"body": "tagged", "tags": "red", "keys": "k1 k2"},
    {"body": "flagged", "flag": -7},
    {"body": "user's own", "properties": {"colour": "blue", "ü": "é"}},
    {"body": "in order", "shardingKey": "customer-7"},
    {"body": "compressed " * 1_000},
    {"body": "paid", "transaction": "COMMIT_MESSAGE"},
]
BATCH: list[dict[str, Any]] = [
    {"body": "one", "tags": "red", "flag": 3},
    {"body": "two", "keys": "k", "properties": {"a": "b"}},
]
OF_THIS_RUN = (
    *("msgId", "offsetMsgId", "queueOffset", "commitLogOffset", "preparedTransactionOffset"),
    *("bornTimestamp", "bornHost", "storeTimestamp", "storeHost"),
    "storeSize",  # that of the next ones
)
OF_SINGLE = ("MSG_REGION", "TRACE_ON", "CLUSTER")
"""What a real broker adds to single messages, and the emulator to those of a batch too."""
IDS = ("UNIQ_KEY", "__transactionId__")


@pytest.fixture(scope="module")
def broker(apache_release: Release) -> Iterator[RunningBroker]:
    with running_broker({TOPIC: 1}, remoting=True) as running:
        yield running


def send_all(release: Release, name_servers: str, folder: Path) -> None:
    with JavaProducer(release, name_servers, folder) as producer:
        producer.send_all(make_message(TOPIC, **message) for message in MESSAGES)
        producer.send_batch(make_message(TOPIC, **message) for message in BATCH)


def read_all(oracle: JavaOracle, address: str) -> list[dict[str, Any]]:
    """Returns all messages as Apache's client decodes them, without what each run has anew."""
    fields = {"consumerGroup": "readers", "topic": TOPIC, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32}
    fields |= {"sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}
    found: list[dict[str, Any]] = []

    def has_all() -> bool:
        response = Calls().call(address, RequestCode.PULL_MESSAGE, {**fields, "expressionType": "TAG"}, b"", (19, 21))
        found[:] = oracle.decode_messages(response.body)
        return len(found) == len(MESSAGES) + len(BATCH)

    wait_until(has_all, "all messages of the producer")
    for message in found:
        for name in OF_THIS_RUN:
            message.pop(name, None)
        for name in IDS:
            if name in message["properties"]:
                message["properties"][name] = f"a text of {len(message['properties'][name])} characters"
        if base64.b64decode(message["body"]).decode() in {one["body"] for one in BATCH}:
            for name in OF_SINGLE:
                message["properties"].pop(name, None)
    # A half message is committed some time later.
    return sorted(found, key=lambda message: str(message["body"]))


def test_messages_of_apaches_producer_are_those_of_a_real_broker(
    apache: ApacheCluster, oracle: JavaOracle, apache_release: Release, broker: RunningBroker, tmp_path: Path
) -> None:
    if apache_release is not RELEASE_5:
        pytest.skip("brokers of other releases store other properties")
    apache.administration.create_topic(TOPIC, 1)
    send_all(apache_release, apache.addresses, tmp_path / "real")
    send_all(apache_release, broker.remoting_addresses[0], tmp_path / "ours")
    expected = read_all(oracle, apache.brokers[0].address)
    assert read_all(oracle, broker.remoting_addresses[0]) == expected
