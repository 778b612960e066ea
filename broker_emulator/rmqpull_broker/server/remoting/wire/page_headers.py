"""The headers of requests for pages of all topics and all groups, which RocketMQ has from 5.5 on (rules 6.4)."""

from __future__ import annotations

from dataclasses import dataclass

from rmqpull_proto.remoting.header_fields import Header, Int
from rmqpull_proto.remoting.headers import RpcRequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigRequestHeader(RpcRequestHeader):
    """GET_ALL_TOPIC_CONFIG: a page of the topics from the one with number ``topic_seq`` on. Up to 5.4, no field."""

    topic_seq: Int | None = None
    data_version: str | None = None
    max_topic_num: Int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigResponseHeader(Header):
    """The response. It has the number of all topics."""

    total_topic_num: Int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptionGroupRequestHeader(RpcRequestHeader):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: a page of the groups from the one with number ``group_seq`` on."""

    group_seq: Int | None = None
    data_version: str | None = None
    max_group_num: Int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptionGroupResponseHeader(Header):
    """The response. It has the number of all groups."""

    total_group_num: Int
