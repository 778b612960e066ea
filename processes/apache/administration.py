"""Administration of Apache's servers over the remoting protocol, without a Java process per command."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import socket
import ssl
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

CALL_TIMEOUT_S = 15.0
ROUTE_WITHIN_S = 30.0
_VERSION = 479
"""5.3.3. Name servers answer versions from 401 on with standard JSON."""
_BARE_KEY = re.compile(r"(?<=[{,])(\d+)(?=:)")
_LOOK_S = 0.02


@dataclass(frozen=True)
class Credentials:
    """An access key and its secret key."""

    access_key: str
    secret_key: str

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, ...)"


@dataclass(frozen=True)
class Response:
    """A response to a call."""

    code: int
    remark: str
    fields: dict[str, str]
    body: bytes


class CallRefused(Exception):
    """A server answered with a code other than 0."""

    def __init__(self, address: str, request_code: int, response: Response) -> None:
        super().__init__(f"{address} refused request {request_code} with code {response.code}: {response.remark}")
        self.code = response.code


class Administration:
    """Creates, changes and deletes topics, consumer groups and offsets of a cluster.

    Calls go to the masters of all brokers, or of one that is named. Each call has a connection of its own. With a
    ``tls`` context, connections use TLS. Calls raise CallRefused, and OSError when a server cannot be reached.
    """

    def __init__(
        self, name_servers: str, credentials: Credentials | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._name_servers = name_servers.split(";")
        self._credentials = credentials
        self._tls = tls

    # ---- what exists

    def find_brokers(self) -> dict[str, dict[int, str]]:
        """Returns the addresses of all brokers, by broker name and broker id. The master has the id 0."""
        body = self.call(self._name_servers[0], 106).body
        table = json.loads(_BARE_KEY.sub(r'"\1"', body.decode())).get("brokerAddrTable") or {}
        return {name: {int(key): at for key, at in one["brokerAddrs"].items()} for name, one in table.items()}

    def find_masters(self, broker: str | None = None) -> dict[str, str]:
        """Returns the addresses of the masters by broker name: of all, or of one broker."""
        brokers = self.find_brokers()
        return {name: ids[0] for name, ids in brokers.items() if 0 in ids and broker in (None, name)}

    def find_route(self, topic: str) -> dict[str, Any]:
        """Returns the route of a topic, as its name server writes it. It is empty when there is no such topic."""
        response = self.call(self._name_servers[0], 105, {"topic": topic}, refusals_allowed=(17,))
        return {} if response.code else json.loads(_BARE_KEY.sub(r'"\1"', response.body.decode()))

    def list_topics(self) -> list[str]:
        """Returns the names of all topics, those of the system included."""
        return sorted(json.loads(self.call(self._name_servers[0], 206).body).get("topicList", []))

    # ---- topics

    def create_topic(
        self,
        topic: str,
        queues: int = 4,
        broker: str | None = None,
        *,
        read_queues: int | None = None,
        perm: int = 6,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Creates or changes a topic, and returns when the name server knows it.

        ``queues`` is the number of queues to write to, and of queues to read from if ``read_queues`` is missing.
        ``attributes`` are those of 5.x, such as ``{"message.type": "FIFO"}``.
        """
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": queues if read_queues is None else read_queues,
            "writeQueueNums": queues,
            "perm": perm,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": str(order).lower(),
        }
        if attributes:
            fields["attributes"] = ",".join(f"+{name}={value}" for name, value in attributes.items())
        masters = self.find_masters(broker)
        for address in masters.values():
            self.call(address, 17, fields)
        expected = {(name, fields["readQueueNums"], queues, perm) for name in masters}
        self._wait_for(lambda: expected <= self._queues(topic), f"the route of topic {topic} shows {expected}")

    def delete_topic(self, topic: str, broker: str | None = None) -> None:
        """Deletes a topic on the brokers, and on the name servers unless a broker is named."""
        for address in self.find_masters(broker).values():
            self.call(address, 215, {"topic": topic})
        if broker is None:
            for address in self._name_servers:
                self.call(address, 216, {"topic": topic})
        self._wait_for(
            lambda: all(name != broker is not None for name, *_ in self._queues(topic)), f"topic {topic} has no route"
        )

    def _queues(self, topic: str) -> set[tuple[str, int, int, int]]:
        """Returns broker name, queues to read, queues to write, and permission of each broker of a topic."""
        queues = self.find_route(topic).get("queueDatas") or []
        return {(one["brokerName"], one["readQueueNums"], one["writeQueueNums"], one["perm"]) for one in queues}

    def _count_queues(self, topic: str, broker: str) -> int:
        return sum(read for name, read, *_ in self._queues(topic) if name == broker)

    # ---- consumer groups and their offsets

    def create_group(self, group: str, broker: str | None = None, **config: Any) -> None:
        """Creates or changes a consumer group. ``config`` has RocketMQ's names, such as ``retryMaxTimes=3``."""
        body = json.dumps({"groupName": group, **config}).encode()
        for address in self.find_masters(broker).values():
            self.call(address, 200, body=body)

    def delete_group(self, group: str, broker: str | None = None) -> None:
        """Deletes a consumer group with its offsets."""
        for address in self.find_masters(broker).values():
            self.call(address, 207, {"groupName": group, "cleanOffset": "true"})

    def query_offset(self, group: str, topic: str, queue: int, broker: str = "broker-a") -> int | None:
        """Returns the consumer offset of a queue, or None if the group has none."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "setZeroIfNotFound": "false"}
        response = self.call(self.find_masters(broker)[broker], 14, fields, refusals_allowed=(22,))
        return None if response.code else int(response.fields["offset"])

    def set_offset(self, group: str, topic: str, queue: int, offset: int, broker: str = "broker-a") -> None:
        """Sets the consumer offset of a queue, as a consumer does."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
        self.call(self.find_masters(broker)[broker], 15, fields)

    def query_bounds(self, topic: str, queue: int, broker: str = "broker-a") -> tuple[int, int]:
        """Returns the min and the max offset of a queue."""
        address = self.find_masters(broker)[broker]
        fields = {"topic": topic, "queueId": queue}
        lowest, highest = (int(self.call(address, code, fields).fields["offset"]) for code in (31, 30))
        return lowest, highest

    def count_messages(self, topic: str) -> int:
        """Returns how many messages all queues of a topic hold."""
        bounds = (
            self.query_bounds(topic, queue, name) for name, queues, *_ in self._queues(topic) for queue in range(queues)
        )
        return sum(highest - lowest for lowest, highest in bounds)

    def reset_offsets(
        self, group: str, topic: str, *, timestamp_ms: int = -1, offset: int = -1, queue: int = -1
    ) -> None:
        """Resets the offsets of a group, as `mqadmin resetOffsetByTime` does: to a time, or a queue to an offset."""
        fields = {"group": group, "topic": topic, "timestamp": timestamp_ms, "isForce": "true"}
        for name, address in self.find_masters().items():
            try:
                self.call(address, 222, {**fields, "offset": offset, "queueId": queue})
            except CallRefused as refused:
                if refused.code != 1:
                    raise
                # 4.x resets groups with members only. As there, the offsets of others are set.
                for one in range(self._count_queues(topic, name)) if queue < 0 else (queue,):
                    found = offset if offset >= 0 else self.find_offset(topic, one, timestamp_ms, name)
                    self.set_offset(group, topic, one, found, name)

    def find_offset(self, topic: str, queue: int, timestamp_ms: int, broker: str = "broker-a") -> int:
        """Returns the offset of the first message of a queue that was stored at this time or later."""
        fields = {"topic": topic, "queueId": queue, "timestamp": timestamp_ms}
        return int(self.call(self.find_masters(broker)[broker], 29, fields).fields["offset"])

    # ---- brokers

    def update_broker(self, address: str, **properties: str) -> None:
        """Changes properties of a running broker, as `mqadmin updateBrokerConfig` does."""
        self.call(address, 25, body="".join(f"{name}={value}\n" for name, value in properties.items()).encode())

    # ---- calls

    def call(
        self,
        address: str,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        refusals_allowed: tuple[int, ...] = (),
    ) -> Response:
        """Sends one request and returns the response. Raises CallRefused when its code is neither 0 nor allowed."""
        texts = {name: str(value) for name, value in (fields or {}).items()}
        with self._connect(address) as connection:
            connection.sendall(_encode(code, self._sign(texts, body), body))
            response = _decode(connection)
        if response.code and response.code not in refusals_allowed:
            raise CallRefused(address, code, response)
        return response

    @contextmanager
    def _connect(self, address: str) -> Iterator[socket.socket]:
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), CALL_TIMEOUT_S) as plain:
            if self._tls is None:
                yield plain
                return
            with self._tls.wrap_socket(plain, server_hostname=host) as secured:
                yield secured

    def _sign(self, fields: dict[str, str], body: bytes) -> dict[str, str]:
        if self._credentials is None:
            return fields
        named = {**fields, "AccessKey": self._credentials.access_key}
        content = "".join(named[name] for name in sorted(named)).encode() + body
        digest = hmac.new(self._credentials.secret_key.encode(), content, hashlib.sha1).digest()
        return {**named, "Signature": base64.b64encode(digest).decode()}

    def _wait_for(self, happened: Any, what: str) -> None:
        deadline = time.monotonic() + ROUTE_WITHIN_S
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"After {ROUTE_WITHIN_S:.0f} s it is not so that {what}.")
            time.sleep(_LOOK_S)


def _encode(code: int, fields: Mapping[str, str], body: bytes) -> bytes:
    command = {"code": code, "language": "JAVA", "version": _VERSION, "opaque": 1, "flag": 0, "extFields": fields}
    header = json.dumps({**command, "serializeTypeCurrentRPC": "JSON"}).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def _decode(connection: socket.socket) -> Response:
    size, marked = struct.unpack(">II", _read(connection, 8))
    frame = _read(connection, size - 4)
    header_size = marked & 0xFFFFFF
    header = json.loads(frame[:header_size])
    return Response(header["code"], header.get("remark") or "", header.get("extFields") or {}, frame[header_size:])


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("The server closed the connection before its response was complete.")
        parts += part
    return bytes(parts)
