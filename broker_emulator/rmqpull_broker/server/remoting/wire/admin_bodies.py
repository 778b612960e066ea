"""Bodies of administration: settings of topics and groups, tables of queues, connections (rules 4.6).

Apache's classes take standard JSON for all of them but one: a table whose keys are queues, which has objects as keys.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from rmqpull_broker.server.remoting.wire.json_parts import Parts, write_entry, write_table
from rmqpull_broker.server.remoting.wire.json_values import REQUEST_VALUES_MAX
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json

SETTINGS_MAX = 1_000
"""Topics or groups in one request that changes them: other requests wait for it."""

_S = TypeVar("_S", bound="Settings")
_KINDS = {"str": str, "int": int, "bool": bool, "Mapping[str, str]": dict, "Mapping[str, Any]": dict}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The base of settings: each field is one of the JSON object, in camel case there. Unknown fields are ignored."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a JSON object."""
        return {written: getattr(self, name) for name, written in self._list_names()}

    @classmethod
    @functools.cache
    def _list_names(cls) -> Sequence[tuple[str, str]]:
        """Returns the names of the fields, and those that they have in JSON."""
        return [(each.name, _camel_case(each.name)) for each in fields(cls)]

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
    value = read_json(body, values_max=REQUEST_VALUES_MAX)
    if not name:
        return [kind.from_json(value)]
    listed = value.get(name) if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise WireError(f"{name} is {_show(listed)}, expected a list")
    if len(listed) > SETTINGS_MAX:
        raise WireError(f"{name} has {len(listed)} entries, expected at most {SETTINGS_MAX}; send several requests")
    return [kind.from_json(each) for each in listed]


def write_settings_table(name: str, settings: Iterable[tuple[str, Settings]], **others: Any) -> Parts:
    """Writes the settings of all topics or groups, as tables of a broker have them, an entry at a time."""
    entries = (write_entry(key, value.to_json()) for key, value in settings)
    return write_table(name, entries, {"dataVersion": DATA_VERSION, **others})


DATA_VERSION: Mapping[str, int] = {"counter": 0, "stateVersion": 0, "timestamp": 0}
"""Slaves compare versions of tables. There are none, so the version stays the same."""


def write_queue_entry(queue: tuple[str, str, int], value: Mapping[str, Any]) -> tuple[bytes]:
    """Writes what is told of a queue (topic, broker name, queue id), for a table whose keys are queues."""
    topic, broker_name, queue_id = queue
    return write_entry({"brokerName": broker_name, "queueId": queue_id, "topic": topic}, value)


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
