"""The headers of look-ups of messages (rules 4.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from rmqpull_proto.remoting.header_fields import Header, Int, Long
from rmqpull_proto.remoting.headers import RpcRequestHeader, TopicRequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessageRequestHeader(RpcRequestHeader):
    """VIEW_MESSAGE_BY_ID. ``offset`` is the physical offset of the message."""

    topic: str | None = None
    offset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageRequestHeader(TopicRequestHeader):
    """QUERY_MESSAGE. Times are store times in milliseconds. ``unique_key_query`` is ``true`` for a message id."""

    names: ClassVar[Mapping[str, str]] = MappingProxyType({"unique_key_query": "_UNIQUE_KEY_QUERY"})

    key: str
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    unique_key_query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageResponseHeader(Header):
    """The response to QUERY_MESSAGE: the time and the place of the newest message that can be found by its keys."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long
