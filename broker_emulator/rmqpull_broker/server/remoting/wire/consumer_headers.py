"""The headers of requests that a broker forwards to consumers, and of those about a group's offsets (rules 3.5.3)."""

from __future__ import annotations

from dataclasses import dataclass

from rmqpull_proto.remoting.header_fields import Int
from rmqpull_proto.remoting.headers import RpcRequestHeader, TopicRequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerStatusRequestHeader(TopicRequestHeader):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS and GET_CONSUMER_STATUS_FROM_CLIENT. ``client_addr`` is a client id."""

    group: str
    client_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRunningInfoRequestHeader(RpcRequestHeader):
    """GET_CONSUMER_RUNNING_INFO."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectlyRequestHeader(RpcRequestHeader):
    """CONSUME_MESSAGE_DIRECTLY. The broker adds its name, system flags and the message."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneGroupOffsetRequestHeader(RpcRequestHeader):
    """CLONE_GROUP_OFFSET. ``offline``: whether the topic needs no subscription."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCorrectionOffsetRequestHeader(TopicRequestHeader):
    """QUERY_CORRECTION_OFFSET. ``filter_groups`` has names with commas between them."""

    filter_groups: str | None = None
    compare_group: str
