"""The headers of requests about lite topics, which RocketMQ has from 5.5 on (rules 6.4). Times are in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from rmqpull_proto.remoting.header_fields import Header, Int, Long
from rmqpull_proto.remoting.headers import RpcRequestHeader, TopicRequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class PopLiteMessageRequestHeader(TopicRequestHeader):
    """POP_LITE_MESSAGE. ``topic`` is the parent; a ``born_time`` of 0 is the time of arrival."""

    client_id: str | None = None
    consumer_group: str | None = None
    max_msg_num: Int = 0
    invisible_time: Long = 0
    poll_time: Long = 0
    born_time: Long = 0
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PopLiteMessageResponseHeader(Header):
    """The response to a pop of lite topics, for each code."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentTopicRequestHeader(RpcRequestHeader):
    """GET_LITE_TOPIC_INFO and GET_LITE_CLIENT_INFO, of which only the parent topic is read here."""

    parent_topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteGroupRequestHeader(RpcRequestHeader):
    """GET_LITE_GROUP_INFO and TRIGGER_LITE_DISPATCH, of which only the group is read here."""

    group: str
