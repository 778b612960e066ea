"""Administration of Apache's servers over the remoting protocol, without a Java process per command."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from processes.apache.calls import CallRefused, Calls, Credentials, Response
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.json_dialect import read_json

ROUTE_WITHIN_S = 30.0
_LOOK_S = 0.02
_WITHOUT_MEMBERS = (ResponseCode.SYSTEM_ERROR, ResponseCode.CONSUMER_NOT_ONLINE)


class Administration:
    """Creates, changes and deletes topics, consumer groups and offsets of a cluster.

    Calls go to the masters of all brokers, or of one that is named. Each call has a connection of its own. With a
    ``tls`` context, connections use TLS. Calls raise CallRefused, and OSError when a server cannot be reached.
    """

    def __init__(
        self, name_servers: str, credentials: Credentials | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._name_servers = name_servers.split(";")
        self._calls = Calls(credentials, tls)

    # ---- what exists

    def find_brokers(self) -> dict[str, dict[int, str]]:
        """Returns the addresses of all brokers, by broker name and broker id. The master has the id 0."""
        return _read_brokers(self._ask(RequestCode.GET_BROKER_CLUSTER_INFO))

    def is_registered(self, name: str, broker_id: int, address: str) -> bool:
        """Returns whether all name servers that can be reached, at least one, know a broker by this address.

        A broker registers at each name server by itself, so one may know it before the others do.
        """
        told = []
        for name_server in self._name_servers:
            with suppress(OSError):
                brokers = _read_brokers(self.call(name_server, RequestCode.GET_BROKER_CLUSTER_INFO))
                told.append(brokers.get(name, {}).get(broker_id))
        return bool(told) and all(each == address for each in told)

    def find_masters(self, broker: str | None = None) -> dict[str, str]:
        """Returns the addresses of the masters by broker name: of all, or of one broker."""
        brokers = self.find_brokers()
        return {name: ids[0] for name, ids in brokers.items() if 0 in ids and broker in (None, name)}

    def find_route(self, topic: str) -> dict[str, Any]:
        """Returns the route of a topic, as its name server writes it. It is empty when there is no such topic."""
        response = self._ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic},
            refusals_allowed=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        return {} if response.code else read_json(response.body)

    def list_topics(self) -> list[str]:
        """Returns the names of all topics, those of the system included."""
        return sorted(read_json(self._ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body).get("topicList", []))

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
        ``attributes`` are those of 5.x, such as ``{"message.type": "FIFO"}``. Raises LookupError when there is no
        master to create it on.
        """
        fields = _topic_fields(topic, queues if read_queues is None else read_queues, queues, perm)
        fields["order"] = str(order).lower()
        if attributes:
            fields["attributes"] = ",".join(f"+{name}={value}" for name, value in attributes.items())
        masters = self.find_masters(broker)
        if not masters:
            raise LookupError(
                f"Topic {topic} cannot be created: no name server knows a master of {broker or 'any broker'}."
            )
        for address in masters.values():
            self.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        expected = {(name, fields["readQueueNums"], queues, perm) for name in masters}
        self._wait_for(lambda: expected <= self._queues(topic), f"the route of topic {topic} shows {expected}")

    def tell_topic(self, topic: str, broker: str, address: str) -> None:
        """Creates a topic of a broker at one address: that of a slave of 5.x."""
        for name, *shape in self._queues(topic):
            if name == broker:
                self.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, _topic_fields(topic, *shape))

    def wait_for_topic(self, topic: str, address: str) -> None:
        """Returns when the broker at an address knows a topic. Raises TimeoutError."""

        def is_known() -> bool:
            return f'"topicName":"{topic}"'.encode() in self.call(address, RequestCode.GET_ALL_TOPIC_CONFIG).body

        self._wait_for(is_known, f"the broker at {address} knows topic {topic}")

    def delete_topic(self, topic: str, broker: str | None = None) -> None:
        """Deletes a topic on the brokers, and on the name servers unless a broker is named."""
        for address in self.find_masters(broker).values():
            self.call(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        if broker is None:
            for address in self._name_servers:
                self.call(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
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
            self.call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    def delete_group(self, group: str, broker: str | None = None) -> None:
        """Deletes a consumer group with its offsets."""
        for address in self.find_masters(broker).values():
            self.call(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group, "cleanOffset": "true"})

    def query_offset(self, group: str, topic: str, queue: int, broker: str = "broker-a") -> int | None:
        """Returns the consumer offset of a queue, or None if the group has none."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "setZeroIfNotFound": "false"}
        response = self.call(
            self.find_masters(broker)[broker],
            RequestCode.QUERY_CONSUMER_OFFSET,
            fields,
            refusals_allowed=(ResponseCode.QUERY_NOT_FOUND,),
        )
        return None if response.code else int(response.fields["offset"])

    def set_offset(self, group: str, topic: str, queue: int, offset: int, broker: str = "broker-a") -> None:
        """Sets the consumer offset of a queue, as a consumer does."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
        self.call(self.find_masters(broker)[broker], RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    def query_bounds(self, topic: str, queue: int, broker: str = "broker-a") -> tuple[int, int]:
        """Returns the min and the max offset of a queue."""
        address = self.find_masters(broker)[broker]
        fields = {"topic": topic, "queueId": queue}
        lowest, highest = (
            int(self.call(address, code, fields).fields["offset"])
            for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
        )
        return lowest, highest

    def is_behind(self, address: str) -> bool:
        """Returns whether a broker has stored messages that are not in their queues yet, or cannot say so yet."""
        try:
            told = json.loads(self.call(address, RequestCode.GET_BROKER_RUNTIME_INFO).body)
        except CallRefused:  # in its first second
            return True
        return int(told["table"]["dispatchBehindBytes"]) > 0

    def wait_until_in_queues(self, topic: str, masters: Mapping[str, str]) -> None:
        """Returns when masters, by name with their addresses, are in the route and have no message left to add.

        A broker adds messages to their queues after its response, and is in no route at first after a restart.
        """

        def are_done() -> bool:
            if any(self.is_behind(address) for address in masters.values()):
                return False
            return masters.keys() <= {name for name, *_ in self._queues(topic)}

        self._wait_for(are_done, f"all messages of topic {topic} are in their queues")

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
            if not self._count_queues(topic, name):
                continue
            try:
                self.call(
                    address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**fields, "offset": offset, "queueId": queue}
                )
            except CallRefused as refused:
                if refused.code not in _WITHOUT_MEMBERS:
                    raise
                # 4.x resets groups with members only. As there, the offsets of others are set.
                for one in range(self._count_queues(topic, name)) if queue < 0 else (queue,):
                    found = offset if offset >= 0 else self.find_offset(topic, one, timestamp_ms, name)
                    self.set_offset(group, topic, one, found, name)

    def find_offset(self, topic: str, queue: int, timestamp_ms: int, broker: str = "broker-a") -> int:
        """Returns the offset of the first message of a queue that was stored at this time or later."""
        fields = {"topic": topic, "queueId": queue, "timestamp": timestamp_ms}
        return int(
            self.call(self.find_masters(broker)[broker], RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields).fields[
                "offset"
            ]
        )

    # ---- brokers

    def update_broker(self, address: str, **properties: str) -> None:
        """Changes properties of a running broker, as `mqadmin updateBrokerConfig` does."""
        self.call(
            address,
            RequestCode.UPDATE_BROKER_CONFIG,
            body="".join(f"{name}={value}\n" for name, value in properties.items()).encode(),
        )

    def send(
        self,
        address: str,
        topic: str,
        body: bytes,
        queue: int = 0,
        *,
        properties: str = "",
        refusals_allowed: tuple[int, ...] = (),
    ) -> Response:
        """Sends one message to a broker. ``properties`` are in RocketMQ's form, with the bytes 1 and 2."""
        fields = {
            "producerGroup": "administration",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4,
            "queueId": queue,
            "sysFlag": 0,
            "bornTimestamp": time.time_ns() // 1_000_000,
            "flag": 0,
            "properties": properties,
        }
        return self.call(address, RequestCode.SEND_MESSAGE, fields, body, refusals_allowed)

    # ---- calls

    def call(
        self,
        address: str,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        refusals_allowed: tuple[int, ...] = (),
    ) -> Response:
        """Sends any request and returns the response. Raises CallRefused when its code is neither 0 nor allowed."""
        return self._calls.call(address, code, fields, body, refusals_allowed)

    def _ask(
        self, code: int, fields: Mapping[str, Any] | None = None, refusals_allowed: tuple[int, ...] = ()
    ) -> Response:
        """Asks the name servers in turn, until one responds."""
        for address in self._name_servers[:-1]:
            with suppress(OSError):
                return self.call(address, code, fields, refusals_allowed=refusals_allowed)
        return self.call(self._name_servers[-1], code, fields, refusals_allowed=refusals_allowed)

    def _wait_for(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + ROUTE_WITHIN_S
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"It is still not true after {ROUTE_WITHIN_S:.0f} s that {what}.")
            time.sleep(_LOOK_S)


def _read_brokers(response: Response) -> dict[str, dict[int, str]]:
    table = read_json(response.body).get("brokerAddrTable") or {}
    return {name: {int(key): at for key, at in one["brokerAddrs"].items()} for name, one in table.items()}


def _topic_fields(topic: str, read_queues: int, write_queues: int, perm: int) -> dict[str, Any]:
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": read_queues,
        "writeQueueNums": write_queues,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
