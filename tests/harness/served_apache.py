"""A topic "orders" of a real Apache RocketMQ, and a client of it by the remoting protocol."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from processes.apache.cluster import ApacheCluster
from rmqpull_client.connection import Connection, wrap_name
from rmqpull_client.flow import Flow
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.port import BrokerClient
from tests.harness.served_broker import FLOW, TIMEOUT_MS
from tests.harness.waiting import wait_until

_BATCH_BYTES = 1 << 20
_BATCH_ROWS = 1_000
_SEND, _SEND_BATCH = 10, 320


class ServedApache:
    """A topic with a name of its own, in a namespace of its own, so that tests share a cluster.

    Rows and messages go to the queues of all brokers in turn.
    """

    def __init__(self, cluster: ApacheCluster, queues: int = 1, flow: Flow = FLOW) -> None:
        self.cluster = cluster
        self.namespace = f"test-{uuid.uuid4().hex[:12]}"
        self.topic = wrap_name(self.namespace, "orders")
        self.connection = Connection(
            name_servers=cluster.addresses, namespace=self.namespace, request_timeout_ms=TIMEOUT_MS
        )
        self.endpoints = cluster.addresses
        self.client: BrokerClient = connect(self.connection, flow)
        cluster.administration.create_topic(self.topic, queues)
        masters = cluster.administration.find_masters()
        self._targets = [(masters[name], queue) for queue in range(queues) for name in sorted(masters)]
        self._next = self._sent = 0

    def send(self, *bodies: bytes) -> None:
        """Sends messages one after the other."""
        for body in bodies:
            address, queue = self._targets[self._next % len(self._targets)]
            self._next += 1
            self.cluster.administration.call(address, _SEND, {**self._make_fields(queue), "batch": "false"}, body)
        self._wait_for(len(bodies))

    def publish(self, batch: pa.RecordBatch) -> None:
        """Sends one message per row, each queue's rows in their order."""
        rows = batch.to_pylist()
        for index, (address, queue) in enumerate(self._targets):
            for body in _encode(rows[index :: len(self._targets)]):
                fields = {name: str(value) for name, value in self._make_fields(queue).items()}
                short = {letter: fields[name] for letter, name in zip("abcdefghijkm", fields, strict=True)}
                self.cluster.administration.call(address, _SEND_BATCH, short, body)
        self._wait_for(len(rows))

    def reset(self, group: str, queue_id: int = -1, offset: int = -1) -> None:
        """Resets consumer offsets as `mqadmin` does: of one queue to an offset, or of all to their beginning."""
        if self.cluster.brokers[0].release.name == "4.9":
            pytest.skip("brokers of 4.x tell members of a group of a reset, and no pulls")
        timestamp_ms = 0 if offset < 0 else -1
        group = wrap_name(self.namespace, group)
        self.cluster.administration.reset_offsets(
            group, self.topic, timestamp_ms=timestamp_ms, offset=offset, queue=queue_id
        )

    def _wait_for(self, count: int) -> None:
        """Returns when consumers see what was sent: the broker adds messages to their queues a little later."""
        self._sent += count
        wait_until(lambda: self.cluster.administration.count_messages(self.topic) >= self._sent, "in the queues")

    def _make_fields(self, queue: int) -> dict[str, Any]:
        return {
            "producerGroup": "tests",
            "topic": self.topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 1,
            "queueId": queue,
            "sysFlag": 0,
            "bornTimestamp": int(time.time() * 1000),
            "flag": 0,
            "properties": "",
            "reconsumeTimes": 0,
            "unitMode": "false",
            "batch": "true",
        }


def _encode(rows: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yields the bodies of batches."""
    batch: list[bytes] = []
    for row in rows:
        body, properties = row["body"], _encode_properties(row)
        batch.append(
            struct.pack(">5i", 22 + len(body) + len(properties), 0, 0, 0, len(body))
            + body
            + struct.pack(">h", len(properties))
            + properties
        )
        if len(batch) == _BATCH_ROWS or sum(map(len, batch)) > _BATCH_BYTES:
            yield b"".join(batch)
            batch.clear()
    if batch:
        yield b"".join(batch)


def _encode_properties(row: Mapping[str, Any]) -> bytes:
    named = dict(row.get("properties") or ())
    named |= {"TAGS": row.get("tags"), "KEYS": " ".join(row.get("keys") or ()), "UNIQ_KEY": row.get("msgId")}
    return "".join(f"{name}\x01{value}\x02" for name, value in named.items() if value).encode()
