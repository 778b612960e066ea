"""The headers of requests by administrators: one declared table for each (rules 4.4, 4.6)."""

from __future__ import annotations

from dataclasses import dataclass

from rmqpull_proto.remoting.header_fields import Int, Long
from rmqpull_proto.remoting.headers import (
    GroupRequestHeader,
    RpcRequestHeader,
    TopicQueueRequestHeader,
    TopicRequestHeader,
)

# Groups and topics.


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAndTopicRequestHeader(TopicRequestHeader):
    """QUERY_CONSUME_TIME_SPAN and QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStatsRequestHeader(GroupRequestHeader):
    """GET_CONSUME_STATS. ``topic_list`` has semicolons between the topics."""

    topic: str | None = None
    topic_list: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStatsInBrokerRequestHeader(RpcRequestHeader):
    """GET_BROKER_CONSUME_STATS."""

    is_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerGroupRequestHeader(RpcRequestHeader):
    """GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueueRequestHeader(TopicQueueRequestHeader):
    """QUERY_CONSUME_QUEUE: entries of a queue from ``index`` on."""

    index: Long
    count: Int
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBrokerStatsDataRequestHeader(RpcRequestHeader):
    """VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


# Name servers.


@dataclass(frozen=True, slots=True, kw_only=True)
class KvConfigRequestHeader(RpcRequestHeader):
    """GET_KV_CONFIG and DELETE_KV_CONFIG; PUT_KV_CONFIG with a value."""

    namespace: str
    key: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvNamespaceRequestHeader(RpcRequestHeader):
    """GET_KVLIST_BY_NAMESPACE."""

    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNameRequestHeader(RpcRequestHeader):
    """WIPE_WRITE_PERM_OF_BROKER, ADD_WRITE_PERM_OF_BROKER, and with a cluster GET_BROKER_MEMBER_GROUP."""

    broker_name: str = ""
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicsByClusterRequestHeader(RpcRequestHeader):
    """GET_TOPICS_BY_CLUSTER."""

    cluster: str
