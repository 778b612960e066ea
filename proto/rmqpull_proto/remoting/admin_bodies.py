"""Bodies of administration: settings of topics and groups, tables of queues, connections (rules 4.6).

Apache's classes take standard JSON for all of them but one: a table whose keys are queues, which has objects as keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json, write_json

_S = TypeVar("_S", bound="Settings")
_KINDS = {"str": str, "int": int, "bool": bool, "Mapping[str, str]": dict, "Mapping[str, Any]": dict}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The base of settings: each field is one of the JSON object, in camel case there. Unknown fields are ignored."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a JSON object."""
        return {_camel_case(each.name): getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_json(cls: type[_S], value: Any) -> _S:
        """Reads a JSON object. A field that is missing or null has its default. Raises ``WireError``."""
        if not isinstance(value, dict):
            raise WireError(f"{cls.__name__} is {_show(value)}, expected an object")
        found = {}
        for each in fields(cls):
            given = value.get(_camel_case(each.name))
            if given is None:
                continue
            kind = _KINDS[str(each.type)]
            # In Python a bool is a number, too.
            if not isinstance(given, kind) or isinstance(given, bool) != (kind is bool):
                raise WireError(f"{_camel_case(each.name)} is {_show(given)}, expected {kind.__name__}")
            found[each.name] = given
        return cls(**found)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings(Settings):
    """A topic as administrators see it: Apache's TopicConfig, with its defaults."""

    topic_name: str = ""
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings(Settings):
    """A consumer group as administrators see it: Apache's SubscriptionGroupConfig, with its defaults."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    group_retry_policy: Mapping[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(Settings):
    """A connection of a client. ``version`` is the number of its library."""

    client_addr: str
    client_id: str
    language: str
    version: int


def read_settings(body: bytes | memoryview, kind: type[_S], name: str = "") -> list[_S]:
    """Reads one object of settings, or the list that stands under ``name``. Raises ``WireError``."""
    value = read_json(body)
    if not name:
        return [kind.from_json(value)]
    listed = value.get(name) if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise WireError(f"{name} is {_show(listed)}, expected a list")
    return [kind.from_json(each) for each in listed]


def write_settings_table(name: str, settings: Mapping[str, Settings], **others: Any) -> bytes:
    """Writes the settings of all topics or groups, as tables of a broker have them."""
    table = {key: value.to_json() for key, value in settings.items()}
    return write_json({"dataVersion": DATA_VERSION, name: table, **others})


DATA_VERSION: Mapping[str, int] = {"counter": 0, "stateVersion": 0, "timestamp": 0}
"""Slaves compare versions of tables. There are none, so the version stays the same."""

QueueEntry = tuple[str, str, int, Mapping[str, Any]]
"""Topic, broker name and queue id of a queue, and what is told of it."""


def write_queue_table(name: str, entries: Iterable[QueueEntry], others: Mapping[str, Any]) -> bytes:
    """Writes an object whose field ``name`` is a table by queue, in fastjson's form: its keys are objects."""
    table = b",".join(
        write_json({"brokerName": broker_name, "queueId": queue_id, "topic": topic}) + b":" + write_json(value)
        for topic, broker_name, queue_id, value in entries
    )
    return _append_field(write_json(others), name, b"{" + table + b"}")


def write_consume_stats_list(groups: Mapping[str, Sequence[bytes]], others: Mapping[str, Any]) -> bytes:
    """Writes the progress of all groups: for each group a list of what :func:`write_queue_table` has written."""
    listed = b",".join(b"{" + write_json(group) + b":[" + b",".join(tables) + b"]}" for group, tables in groups.items())
    return _append_field(write_json(others), "consumeStatsList", b"[" + listed + b"]")


def _append_field(written: bytes, name: str, value: bytes) -> bytes:
    comma = b"" if written == b"{}" else b","
    return written[:-1] + comma + write_json(name) + b":" + value + b"}"


def read_property_lines(body: bytes | memoryview) -> dict[str, str]:
    """Reads the text of Java's Properties that administrators send: lines of ``name=value``, and comments."""
    lines = (line.strip() for line in bytes(body).decode(errors="replace").splitlines())
    entries = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {name.strip(): value.strip() for name, _, value in entries}


def write_property_lines(properties: Mapping[str, str]) -> bytes:
    """Writes properties as lines of ``name=value``, sorted by name."""
    return "".join(f"{name}={properties[name]}\n" for name in sorted(properties)).encode()


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
