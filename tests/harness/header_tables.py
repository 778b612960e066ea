"""The header of each request and of each response, by the code of the request (rules 4.4 to 4.6)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rmqpull_broker.server.remoting.wire.pop_headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.header_fields import Header
from rmqpull_proto.remoting.headers import (
    ConsumerSendMsgBackRequestHeader,
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetRouteInfoRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    GroupRequestHeader,
    OffsetResponseHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetRequestHeader,
    ResetOffsetRequestHeader,
    RpcRequestHeader,
    SearchOffsetRequestHeader,
    TopicQueueRequestHeader,
    TopicRequestHeader,
    UnregisterClientRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqpull_proto.remoting.sending_headers import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)

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
        RequestCode.POP_MESSAGE: PopMessageRequestHeader,
        RequestCode.ACK_MESSAGE: AckMessageRequestHeader,
        RequestCode.PEEK_MESSAGE: PeekMessageRequestHeader,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: ChangeInvisibleTimeRequestHeader,
        RequestCode.NOTIFICATION: NotificationRequestHeader,
        RequestCode.POLLING_INFO: PollingInfoRequestHeader,
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
        RequestCode.POP_MESSAGE: PopMessageResponseHeader,
        RequestCode.PEEK_MESSAGE: PopMessageResponseHeader,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: ChangeInvisibleTimeResponseHeader,
        RequestCode.NOTIFICATION: NotificationResponseHeader,
        RequestCode.POLLING_INFO: PollingInfoResponseHeader,
    }
)
"""The header of the response to each request that has one."""
