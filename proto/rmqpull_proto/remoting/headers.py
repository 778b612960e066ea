"""The headers of requests of consumers, and of those about topics and groups (rules 4.2.3, 4.4, 4.5).

Each is one declared table. Those of producers are in ``sending_headers.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from rmqpull_proto.remoting.header_fields import Header, Int, Long

# Fields that clients of 5.x may add to most requests (rules 4.2.3).


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcRequestHeader(Header):
    """A request. The namespace, whether names contain it, the broker's name, and whether no response is expected."""

    ns: str | None = None
    nsd: bool | None = None
    bname: str | None = None
    oway: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequestHeader(RpcRequestHeader):
    """A request about a topic. ``lo``: whether the queue id is that of a static topic."""

    topic: str
    lo: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQueueRequestHeader(TopicRequestHeader):
    """A request about a queue. GET_MIN_OFFSET and GET_EARLIEST_MSG_STORETIME have no other fields."""

    queue_id: Int


# Requests of consumers (rules 4.5).


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessageRequestHeader(TopicQueueRequestHeader):
    """PULL_MESSAGE and LITE_PULL_MESSAGE.

    A broker needs ``commit_offset`` and ``suspend_timeout_millis`` only if ``sys_flag`` has their bits, and
    ``sub_version`` only without the bit of the subscription (rules 4.5).
    """

    refuses_bad_numbers: ClassVar[bool] = True

    consumer_group: str
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long | None = None
    suspend_timeout_millis: Long | None = None
    subscription: str | None = None
    sub_version: Long | None = None
    expression_type: str | None = None
    max_msg_bytes: Int | None = None
    request_source: Int | None = None
    proxy_froward_client_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessageResponseHeader(Header):
    """The response to a pull, for each code."""

    refuses_bad_numbers: ClassVar[bool] = True

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumerOffsetRequestHeader(TopicQueueRequestHeader):
    """QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    set_zero_if_not_found: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConsumerOffsetRequestHeader(TopicQueueRequestHeader):
    """UPDATE_CONSUMER_OFFSET."""

    consumer_group: str
    commit_offset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffsetRequestHeader(TopicQueueRequestHeader):
    """SEARCH_OFFSET_BY_TIMESTAMP. ``boundary_type`` is ``LOWER`` or ``UPPER``."""

    timestamp: Long
    boundary_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMaxOffsetRequestHeader(TopicQueueRequestHeader):
    """GET_MAX_OFFSET."""

    committed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetResponseHeader(Header):
    """The response to a request for one offset: of a consumer, by time, max, min."""

    offset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEarliestMsgStoretimeResponseHeader(Header):
    """The response to GET_EARLIEST_MSG_STORETIME."""

    timestamp: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClientRequestHeader(RpcRequestHeader):
    """UNREGISTER_CLIENT."""

    names: ClassVar[Mapping[str, str]] = MappingProxyType({"client_id": "clientID"})

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSendMsgBackRequestHeader(RpcRequestHeader):
    """CONSUMER_SEND_MSG_BACK."""

    offset: Long
    group: str
    delay_level: Int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequestHeader(RpcRequestHeader):
    """A request about a consumer group: its clients, its connections, a change of its clients."""

    consumer_group: str


# Topics, groups and routes (rules 4.4, 4.6).


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfoRequestHeader(TopicRequestHeader):
    """GET_ROUTEINFO_BY_TOPIC."""

    accept_standard_json_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicRequestHeader(TopicRequestHeader):
    """UPDATE_AND_CREATE_TOPIC."""

    default_topic: str
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: str
    topic_sys_flag: Int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicFromNamesrvRequestHeader(TopicRequestHeader):
    """DELETE_TOPIC_IN_NAMESRV. DELETE_TOPIC_IN_BROKER has the topic alone."""

    cluster_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscriptionGroupRequestHeader(RpcRequestHeader):
    """DELETE_SUBSCRIPTIONGROUP. ``remove_offset`` is what 4.x calls ``clean_offset``."""

    group_name: str
    clean_offset: bool = False
    remove_offset: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetSubscriptionGroupConfigRequestHeader(RpcRequestHeader):
    """GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetRequestHeader(TopicRequestHeader):
    """INVOKE_BROKER_TO_RESET_OFFSET."""

    group: str
    queue_id: Int = -1
    offset: Long | None = None
    timestamp: Long
    is_force: bool
