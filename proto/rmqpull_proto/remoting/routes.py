"""What name servers say about topics, brokers and clusters (rules 4.4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json, write_json

MASTER_ID = 0
_BROKER_ID = re.compile(r"-?[0-9]{1,19}")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues of a topic on one broker. ``perm`` has the bits of rules 3.9.1."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class BrokerData:
    """A master and its slaves, which share a name. ``broker_addrs`` are addresses by broker id; id 0 is the master."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str]
    enable_acting_master: bool = False
    zone_name: str | None = None


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The queues of a topic and the brokers that have them: the response to GET_ROUTEINFO_BY_TOPIC."""

    queue_datas: tuple[QueueData, ...] = ()
    broker_datas: tuple[BrokerData, ...] = ()
    order_topic_conf: str | None = None
    """For an ordered topic its brokers and numbers of queues: ``broker-a:4;broker-b:4``."""
    is_static: bool = False
    """Whether queues of the topic are mapped to those of other brokers (a static topic)."""

    @classmethod
    def decode(cls, body: bytes | memoryview) -> TopicRoute:
        """Reads the body of a response. Raises ``WireError``."""
        route = _read_body(body, "route of a topic")
        return cls(
            queue_datas=_read_list(route, "queueDatas", _read_queue_data),
            broker_datas=_read_list(route, "brokerDatas", _read_broker_data),
            order_topic_conf=_read_optional(route, "orderTopicConf", str) or None,
            is_static=bool(_read_optional(route, "topicQueueMappingByBroker", dict)),
        )

    def encode(self) -> bytes:
        """Writes the body of a response as standard JSON, which Apache's clients read too. Mappings are left out."""
        route: dict[str, Any] = {
            "brokerDatas": [_write_broker_data(data) for data in self.broker_datas],
            "filterServerTable": {},
            "queueDatas": [_write_queue_data(data) for data in self.queue_datas],
        }
        if self.order_topic_conf is not None:
            route["orderTopicConf"] = self.order_topic_conf
        return write_json(route)


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The brokers of each cluster: the response to GET_BROKER_CLUSTER_INFO."""

    brokers: Mapping[str, BrokerData] = field(default_factory=dict)
    clusters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the brokers in each cluster."""

    @classmethod
    def decode(cls, body: bytes | memoryview) -> ClusterInfo:
        """Reads the body of a response. Raises ``WireError``."""
        info = _read_body(body, "cluster")
        brokers = _read_optional(info, "brokerAddrTable", dict) or {}
        clusters = _read_optional(info, "clusterAddrTable", dict) or {}
        return cls(
            brokers={name: _read_broker_data(data, f"brokerAddrTable[{name!r}]") for name, data in brokers.items()},
            clusters={name: _read_list(clusters, name, _read_text) for name in clusters},
        )

    def encode(self) -> bytes:
        """Writes the body of a response."""
        return write_json(
            {
                "brokerAddrTable": {name: _write_broker_data(data) for name, data in self.brokers.items()},
                "clusterAddrTable": {name: list(names) for name, names in self.clusters.items()},
            }
        )


@dataclass(frozen=True, slots=True)
class TopicList:
    """Names of topics: the response to GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""

    topics: tuple[str, ...] = ()
    broker_addr: str | None = None

    @classmethod
    def decode(cls, body: bytes | memoryview) -> TopicList:
        """Reads the body of a response. Raises ``WireError``."""
        topics = _read_body(body, "list of topics")
        return cls(_read_list(topics, "topicList", _read_text), _read_optional(topics, "brokerAddr", str))

    def encode(self) -> bytes:
        """Writes the body of a response."""
        addr = {} if self.broker_addr is None else {"brokerAddr": self.broker_addr}
        return write_json({**addr, "topicList": list(self.topics)})


def _read_body(body: bytes | memoryview, what: str) -> Mapping[str, Any]:
    value = read_json(body)
    if not isinstance(value, dict):
        raise WireError(f"the {what} is {_show(value)}, expected an object")
    return value


def _read_optional(values: Mapping[str, Any], name: str, kind: type[_T], where: str = "") -> _T | None:
    value = values.get(name)
    # In Python a bool is a number, too.
    if value is None or (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
        return value
    raise WireError(f"{where}{name} is {_show(value)}, expected {kind.__name__}")


def _read(values: Any, name: str, kind: type[_T], where: str) -> _T:
    if not isinstance(values, dict):
        raise WireError(f"{where} is {_show(values)}, expected an object")
    value = _read_optional(values, name, kind, f"{where}.")
    if value is None:
        raise WireError(f"{where}.{name} is missing, expected {kind.__name__}")
    return value


def _read_list(values: Mapping[str, Any], name: str, read: Callable[[Any, str], _T]) -> tuple[_T, ...]:
    elements = _read_optional(values, name, list) or []
    return tuple(read(element, f"{name}[{index}]") for index, element in enumerate(elements))


def _read_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise WireError(f"{where} is {_show(value)}, expected str")
    return value


def _read_queue_data(value: Any, where: str) -> QueueData:
    return QueueData(
        broker_name=_read(value, "brokerName", str, where),
        read_queue_nums=_read(value, "readQueueNums", int, where),
        write_queue_nums=_read(value, "writeQueueNums", int, where),
        perm=_read(value, "perm", int, where),
        topic_sys_flag=_read_optional(value, "topicSysFlag", int, f"{where}.") or 0,
    )


def _read_broker_data(value: Any, where: str) -> BrokerData:
    broker_name = _read(value, "brokerName", str, where)
    return BrokerData(
        cluster=_read_optional(value, "cluster", str, f"{where}.") or "",
        broker_name=broker_name,
        broker_addrs={
            _read_broker_id(broker_id, where): _read_text(address, f"{where}.brokerAddrs[{broker_id!r}]")
            for broker_id, address in _read(value, "brokerAddrs", dict, where).items()
        },
        enable_acting_master=bool(_read_optional(value, "enableActingMaster", bool, f"{where}.")),
        zone_name=_read_optional(value, "zoneName", str, f"{where}."),
    )


def _read_broker_id(text: str, where: str) -> int:
    if not _BROKER_ID.fullmatch(text):
        raise WireError(f"a broker id in {where}.brokerAddrs is {_show(text)}, expected a number")
    return int(text)


def _write_queue_data(data: QueueData) -> dict[str, Any]:
    return {
        "brokerName": data.broker_name,
        "perm": data.perm,
        "readQueueNums": data.read_queue_nums,
        "topicSysFlag": data.topic_sys_flag,
        "writeQueueNums": data.write_queue_nums,
    }


def _write_broker_data(data: BrokerData) -> dict[str, Any]:
    written = {
        "brokerAddrs": {str(broker_id): address for broker_id, address in data.broker_addrs.items()},
        "brokerName": data.broker_name,
        "cluster": data.cluster,
        "enableActingMaster": data.enable_acting_master,
    }
    return written if data.zone_name is None else {**written, "zoneName": data.zone_name}


def _show(value: Any) -> str:
    """Returns a value for an error, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def read_topic_attributes(body: bytes | memoryview) -> dict[str, str]:
    """Reads the attributes of a topic, such as ``message.type``, from a response to GET_TOPIC_CONFIG (rules 4.6).

    Raises ``WireError``.
    """
    settings = read_json(body)
    attributes = (settings.get("attributes") or {}) if isinstance(settings, dict) else None
    if not isinstance(attributes, dict):
        raise WireError("the settings of a topic, or their attributes, are no JSON object")
    return {name: str(value) for name, value in attributes.items()}
