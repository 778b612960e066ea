"""The headers of requests and responses: one declared table for each (rules 4.2.3, 4.4 to 4.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.header_fields import Header, Int, Long

# What 5.x' clients may add to most requests (rules 4.2.3).


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


# Requests of producers (rules 4.6).


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageRequestHeader(TopicQueueRequestHeader):
    """SEND_MESSAGE."""

    producer_group: str
    default_topic: str
    default_topic_queue_nums: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMessageRequestHeader(SendMessageRequestHeader):
    """PUSH_REPLY_MESSAGE_TO_CLIENT, which a broker sends to a producer."""

    born_host: str
    store_host: str
    store_timestamp: Long


_LETTERS = """
    producer_group topic default_topic default_topic_queue_nums queue_id sys_flag born_timestamp flag properties
    reconsume_times unit_mode max_reconsume_times batch bname
""".split()  # noqa: SIM905 (fourteen lines as a list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageRequestHeaderV2(SendMessageRequestHeader):
    """SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: the same fields with letters as names."""

    names: ClassVar[Mapping[str, str]] = MappingProxyType(dict(zip(_LETTERS, "abcdefghijklmn", strict=True)))
    refuses_bad_numbers: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageResponseHeader(Header):
    """The response to a send. Its field ``msgId`` has an id for each message of a batch, separated by commas."""

    refuses_bad_numbers: ClassVar[bool] = True

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRequestHeader(RpcRequestHeader):
    """END_TRANSACTION."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: Int
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTransactionStateRequestHeader(RpcRequestHeader):
    """CHECK_TRANSACTION_STATE, which a broker sends to a producer."""

    topic: str | None = None
    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessageRequestHeader(TopicRequestHeader):
    """RECALL_MESSAGE."""

    producer_group: str | None = None
    recall_handle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessageResponseHeader(Header):
    """The response to RECALL_MESSAGE."""

    msg_id: str


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
class CloneGroupOffsetRequestHeader(RpcRequestHeader):
    """CLONE_GROUP_OFFSET. ``offline``: whether the subscriptions of the group do not count."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetRequestHeader(TopicRequestHeader):
    """INVOKE_BROKER_TO_RESET_OFFSET."""

    group: str
    queue_id: Int = -1
    offset: Long | None = None
    timestamp: Long
    is_force: bool


REQUEST_HEADERS: Mapping[int, type[Header]] = MappingProxyType(
    {
        RequestCode.SEND_MESSAGE: SendMessageRequestHeader,
        RequestCode.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
        RequestCode.SEND_BATCH_MESSAGE: SendMessageRequestHeaderV2,
        RequestCode.PULL_MESSAGE: PullMessageRequestHeader,
        RequestCode.LITE_PULL_MESSAGE: PullMessageRequestHeader,
        RequestCode.QUERY_CONSUMER_OFFSET: QueryConsumerOffsetRequestHeader,
        RequestCode.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetRequestHeader,
        RequestCode.UPDATE_AND_CREATE_TOPIC: CreateTopicRequestHeader,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetRequestHeader,
        RequestCode.GET_MAX_OFFSET: GetMaxOffsetRequestHeader,
        RequestCode.GET_MIN_OFFSET: TopicQueueRequestHeader,
        RequestCode.GET_EARLIEST_MSG_STORETIME: TopicQueueRequestHeader,
        RequestCode.HEART_BEAT: RpcRequestHeader,
        RequestCode.UNREGISTER_CLIENT: UnregisterClientRequestHeader,
        RequestCode.CONSUMER_SEND_MSG_BACK: ConsumerSendMsgBackRequestHeader,
        RequestCode.END_TRANSACTION: EndTransactionRequestHeader,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: GroupRequestHeader,
        RequestCode.CHECK_TRANSACTION_STATE: CheckTransactionStateRequestHeader,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: GroupRequestHeader,
        RequestCode.CHECK_CLIENT_CONFIG: RpcRequestHeader,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: GetRouteInfoRequestHeader,
        RequestCode.GET_BROKER_CLUSTER_INFO: Header,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Header,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: GroupRequestHeader,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Header,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: DeleteSubscriptionGroupRequestHeader,
        RequestCode.DELETE_TOPIC_IN_BROKER: TopicRequestHeader,
        RequestCode.DELETE_TOPIC_IN_NAMESRV: DeleteTopicFromNamesrvRequestHeader,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetRequestHeader,
        RequestCode.GET_TOPIC_CONFIG: TopicRequestHeader,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: GetSubscriptionGroupConfigRequestHeader,
        RequestCode.RECALL_MESSAGE: RecallMessageRequestHeader,
    }
)
"""The header of each request. A request of ``Header`` has no fields."""

RESPONSE_HEADERS: Mapping[int, type[Header]] = MappingProxyType(
    {
        RequestCode.SEND_MESSAGE: SendMessageResponseHeader,
        RequestCode.SEND_MESSAGE_V2: SendMessageResponseHeader,
        RequestCode.SEND_BATCH_MESSAGE: SendMessageResponseHeader,
        RequestCode.PULL_MESSAGE: PullMessageResponseHeader,
        RequestCode.LITE_PULL_MESSAGE: PullMessageResponseHeader,
        RequestCode.QUERY_CONSUMER_OFFSET: OffsetResponseHeader,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: OffsetResponseHeader,
        RequestCode.GET_MAX_OFFSET: OffsetResponseHeader,
        RequestCode.GET_MIN_OFFSET: OffsetResponseHeader,
        RequestCode.GET_EARLIEST_MSG_STORETIME: GetEarliestMsgStoretimeResponseHeader,
        RequestCode.RECALL_MESSAGE: RecallMessageResponseHeader,
    }
)
"""The header of the response to each request that has one."""
