from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as _definition_pb2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as _columns_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PutMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CREATE_OR_UPDATE: _ClassVar[PutMode]
    CREATE: _ClassVar[PutMode]
    UPDATE: _ClassVar[PutMode]

class ResetPlace(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESET_PLACE_UNSPECIFIED: _ClassVar[ResetPlace]
    EARLIEST: _ClassVar[ResetPlace]
    LATEST: _ClassVar[ResetPlace]

class FaultAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAULT_ACTION_UNSPECIFIED: _ClassVar[FaultAction]
    FAIL: _ClassVar[FaultAction]
    DELAY: _ClassVar[FaultAction]
    DROP: _ClassVar[FaultAction]
    HOLD: _ClassVar[FaultAction]
    DISCONNECT: _ClassVar[FaultAction]
CREATE_OR_UPDATE: PutMode
CREATE: PutMode
UPDATE: PutMode
RESET_PLACE_UNSPECIFIED: ResetPlace
EARLIEST: ResetPlace
LATEST: ResetPlace
FAULT_ACTION_UNSPECIFIED: FaultAction
FAIL: FaultAction
DELAY: FaultAction
DROP: FaultAction
HOLD: FaultAction
DISCONNECT: FaultAction

class Topic(_message.Message):
    __slots__ = ("name", "read_queue_nums", "write_queue_nums", "perm", "message_type", "order", "creation_id", "is_system")
    NAME_FIELD_NUMBER: _ClassVar[int]
    READ_QUEUE_NUMS_FIELD_NUMBER: _ClassVar[int]
    WRITE_QUEUE_NUMS_FIELD_NUMBER: _ClassVar[int]
    PERM_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CREATION_ID_FIELD_NUMBER: _ClassVar[int]
    IS_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    message_type: str
    order: bool
    creation_id: str
    is_system: bool
    def __init__(self, name: _Optional[str] = ..., read_queue_nums: _Optional[int] = ..., write_queue_nums: _Optional[int] = ..., perm: _Optional[int] = ..., message_type: _Optional[str] = ..., order: bool = ..., creation_id: _Optional[str] = ..., is_system: bool = ...) -> None: ...

class PutTopicRequest(_message.Message):
    __slots__ = ("name", "mode", "read_queue_nums", "write_queue_nums", "perm", "message_type", "order")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    READ_QUEUE_NUMS_FIELD_NUMBER: _ClassVar[int]
    WRITE_QUEUE_NUMS_FIELD_NUMBER: _ClassVar[int]
    PERM_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: PutMode
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    message_type: str
    order: bool
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[PutMode, str]] = ..., read_queue_nums: _Optional[int] = ..., write_queue_nums: _Optional[int] = ..., perm: _Optional[int] = ..., message_type: _Optional[str] = ..., order: bool = ...) -> None: ...

class PutTopicResponse(_message.Message):
    __slots__ = ("status", "topic", "created")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    topic: Topic
    created: bool
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., topic: _Optional[_Union[Topic, _Mapping]] = ..., created: bool = ...) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("with_system_topics",)
    WITH_SYSTEM_TOPICS_FIELD_NUMBER: _ClassVar[int]
    with_system_topics: bool
    def __init__(self, with_system_topics: bool = ...) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("status", "topics")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    topics: _containers.RepeatedCompositeFieldContainer[TopicSummary]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicSummary, _Mapping]]] = ...) -> None: ...

class TopicSummary(_message.Message):
    __slots__ = ("topic", "message_count")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    message_count: int
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., message_count: _Optional[int] = ...) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeTopicResponse(_message.Message):
    __slots__ = ("status", "topic", "queues", "groups")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    topic: Topic
    queues: _containers.RepeatedCompositeFieldContainer[TopicQueue]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., topic: _Optional[_Union[Topic, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[TopicQueue, _Mapping]]] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class TopicQueue(_message.Message):
    __slots__ = ("broker_name", "queue_id", "is_readable", "is_writable", "min_offset", "max_offset", "oldest_store_timestamp_ms", "newest_store_timestamp_ms")
    BROKER_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_READABLE_FIELD_NUMBER: _ClassVar[int]
    IS_WRITABLE_FIELD_NUMBER: _ClassVar[int]
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_OFFSET_FIELD_NUMBER: _ClassVar[int]
    OLDEST_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    NEWEST_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    broker_name: str
    queue_id: int
    is_readable: bool
    is_writable: bool
    min_offset: int
    max_offset: int
    oldest_store_timestamp_ms: int
    newest_store_timestamp_ms: int
    def __init__(self, broker_name: _Optional[str] = ..., queue_id: _Optional[int] = ..., is_readable: bool = ..., is_writable: bool = ..., min_offset: _Optional[int] = ..., max_offset: _Optional[int] = ..., oldest_store_timestamp_ms: _Optional[int] = ..., newest_store_timestamp_ms: _Optional[int] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("name", "consume_enable", "consume_broadcast_enable", "consume_message_orderly", "retry_queue_nums", "retry_max_times", "notify_consumer_ids_changed_enable", "retry_policy")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONSUME_ENABLE_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BROADCAST_ENABLE_FIELD_NUMBER: _ClassVar[int]
    CONSUME_MESSAGE_ORDERLY_FIELD_NUMBER: _ClassVar[int]
    RETRY_QUEUE_NUMS_FIELD_NUMBER: _ClassVar[int]
    RETRY_MAX_TIMES_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_CONSUMER_IDS_CHANGED_ENABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    name: str
    consume_enable: bool
    consume_broadcast_enable: bool
    consume_message_orderly: bool
    retry_queue_nums: int
    retry_max_times: int
    notify_consumer_ids_changed_enable: bool
    retry_policy: _definition_pb2.RetryPolicy
    def __init__(self, name: _Optional[str] = ..., consume_enable: bool = ..., consume_broadcast_enable: bool = ..., consume_message_orderly: bool = ..., retry_queue_nums: _Optional[int] = ..., retry_max_times: _Optional[int] = ..., notify_consumer_ids_changed_enable: bool = ..., retry_policy: _Optional[_Union[_definition_pb2.RetryPolicy, _Mapping]] = ...) -> None: ...

class PutGroupRequest(_message.Message):
    __slots__ = ("name", "mode", "consume_enable", "consume_broadcast_enable", "consume_message_orderly", "retry_queue_nums", "retry_max_times", "notify_consumer_ids_changed_enable", "retry_policy")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CONSUME_ENABLE_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BROADCAST_ENABLE_FIELD_NUMBER: _ClassVar[int]
    CONSUME_MESSAGE_ORDERLY_FIELD_NUMBER: _ClassVar[int]
    RETRY_QUEUE_NUMS_FIELD_NUMBER: _ClassVar[int]
    RETRY_MAX_TIMES_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_CONSUMER_IDS_CHANGED_ENABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: PutMode
    consume_enable: bool
    consume_broadcast_enable: bool
    consume_message_orderly: bool
    retry_queue_nums: int
    retry_max_times: int
    notify_consumer_ids_changed_enable: bool
    retry_policy: _definition_pb2.RetryPolicy
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[PutMode, str]] = ..., consume_enable: bool = ..., consume_broadcast_enable: bool = ..., consume_message_orderly: bool = ..., retry_queue_nums: _Optional[int] = ..., retry_max_times: _Optional[int] = ..., notify_consumer_ids_changed_enable: bool = ..., retry_policy: _Optional[_Union[_definition_pb2.RetryPolicy, _Mapping]] = ...) -> None: ...

class PutGroupResponse(_message.Message):
    __slots__ = ("status", "group", "created")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    group: Group
    created: bool
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., group: _Optional[_Union[Group, _Mapping]] = ..., created: bool = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("status", "groups")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    groups: _containers.RepeatedCompositeFieldContainer[GroupSummary]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[GroupSummary, _Mapping]]] = ...) -> None: ...

class GroupSummary(_message.Message):
    __slots__ = ("group", "client_count", "lag", "in_flight")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    group: Group
    client_count: int
    lag: int
    in_flight: int
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., client_count: _Optional[int] = ..., lag: _Optional[int] = ..., in_flight: _Optional[int] = ...) -> None: ...

class DescribeGroupRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeGroupResponse(_message.Message):
    __slots__ = ("status", "group", "message_model", "clients", "progress")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_MODEL_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    group: Group
    message_model: str
    clients: _containers.RepeatedCompositeFieldContainer[Client]
    progress: _containers.RepeatedCompositeFieldContainer[QueueProgress]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., group: _Optional[_Union[Group, _Mapping]] = ..., message_model: _Optional[str] = ..., clients: _Optional[_Iterable[_Union[Client, _Mapping]]] = ..., progress: _Optional[_Iterable[_Union[QueueProgress, _Mapping]]] = ...) -> None: ...

class QueueProgress(_message.Message):
    __slots__ = ("group", "queue", "consumer_offset", "min_offset", "max_offset", "lag", "in_flight")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    group: str
    queue: _columns_pb2.Queue
    consumer_offset: int
    min_offset: int
    max_offset: int
    lag: int
    in_flight: int
    def __init__(self, group: _Optional[str] = ..., queue: _Optional[_Union[_columns_pb2.Queue, _Mapping]] = ..., consumer_offset: _Optional[int] = ..., min_offset: _Optional[int] = ..., max_offset: _Optional[int] = ..., lag: _Optional[int] = ..., in_flight: _Optional[int] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteGroupResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ...) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("group", "topic", "broker_name", "queue_id", "offset", "timestamp_ms", "place", "dry_run")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BROKER_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    broker_name: str
    queue_id: int
    offset: int
    timestamp_ms: int
    place: ResetPlace
    dry_run: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., broker_name: _Optional[str] = ..., queue_id: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., place: _Optional[_Union[ResetPlace, str]] = ..., dry_run: bool = ...) -> None: ...

class ResetOffsetsResponse(_message.Message):
    __slots__ = ("status", "queues")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    queues: _containers.RepeatedCompositeFieldContainer[QueueReset]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueueReset, _Mapping]]] = ...) -> None: ...

class QueueReset(_message.Message):
    __slots__ = ("queue", "previous_offset", "offset")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_OFFSET_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue: _columns_pb2.Queue
    previous_offset: int
    offset: int
    def __init__(self, queue: _Optional[_Union[_columns_pb2.Queue, _Mapping]] = ..., previous_offset: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class QueryLagRequest(_message.Message):
    __slots__ = ("groups", "topics")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class QueryLagResponse(_message.Message):
    __slots__ = ("status", "progress")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    progress: _containers.RepeatedCompositeFieldContainer[QueueProgress]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., progress: _Optional[_Iterable[_Union[QueueProgress, _Mapping]]] = ...) -> None: ...

class ListInFlightRequest(_message.Message):
    __slots__ = ("groups", "topics", "broker_name", "queue_id", "max_messages")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    BROKER_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    topics: _containers.RepeatedScalarFieldContainer[str]
    broker_name: str
    queue_id: int
    max_messages: int
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., topics: _Optional[_Iterable[str]] = ..., broker_name: _Optional[str] = ..., queue_id: _Optional[int] = ..., max_messages: _Optional[int] = ...) -> None: ...

class ListInFlightResponse(_message.Message):
    __slots__ = ("status", "messages", "total")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    messages: _containers.RepeatedCompositeFieldContainer[InFlightMessage]
    total: int
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[InFlightMessage, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class InFlightMessage(_message.Message):
    __slots__ = ("group", "queue", "queue_offset", "message_id", "tag", "keys", "delivery_attempt", "delivered_timestamp_ms", "visible_timestamp_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    queue: _columns_pb2.Queue
    queue_offset: int
    message_id: str
    tag: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    delivery_attempt: int
    delivered_timestamp_ms: int
    visible_timestamp_ms: int
    def __init__(self, group: _Optional[str] = ..., queue: _Optional[_Union[_columns_pb2.Queue, _Mapping]] = ..., queue_offset: _Optional[int] = ..., message_id: _Optional[str] = ..., tag: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., delivery_attempt: _Optional[int] = ..., delivered_timestamp_ms: _Optional[int] = ..., visible_timestamp_ms: _Optional[int] = ...) -> None: ...

class Client(_message.Message):
    __slots__ = ("client_id", "client_type", "language", "version", "last_heartbeat_timestamp_ms", "memberships")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIPS_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    client_type: str
    language: str
    version: str
    last_heartbeat_timestamp_ms: int
    memberships: _containers.RepeatedCompositeFieldContainer[ClientMembership]
    def __init__(self, client_id: _Optional[str] = ..., client_type: _Optional[str] = ..., language: _Optional[str] = ..., version: _Optional[str] = ..., last_heartbeat_timestamp_ms: _Optional[int] = ..., memberships: _Optional[_Iterable[_Union[ClientMembership, _Mapping]]] = ...) -> None: ...

class ClientMembership(_message.Message):
    __slots__ = ("group", "is_producer", "message_model", "subscriptions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IS_PRODUCER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_MODEL_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    is_producer: bool
    message_model: str
    subscriptions: _containers.RepeatedCompositeFieldContainer[ClientSubscription]
    def __init__(self, group: _Optional[str] = ..., is_producer: bool = ..., message_model: _Optional[str] = ..., subscriptions: _Optional[_Iterable[_Union[ClientSubscription, _Mapping]]] = ...) -> None: ...

class ClientSubscription(_message.Message):
    __slots__ = ("topic", "expression_type", "expression")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    expression_type: str
    expression: str
    def __init__(self, topic: _Optional[str] = ..., expression_type: _Optional[str] = ..., expression: _Optional[str] = ...) -> None: ...

class ListClientsRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class ListClientsResponse(_message.Message):
    __slots__ = ("status", "clients")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    clients: _containers.RepeatedCompositeFieldContainer[Client]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., clients: _Optional[_Iterable[_Union[Client, _Mapping]]] = ...) -> None: ...

class QueueLock(_message.Message):
    __slots__ = ("group", "queue", "client_id", "last_update_timestamp_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    queue: _columns_pb2.Queue
    client_id: str
    last_update_timestamp_ms: int
    def __init__(self, group: _Optional[str] = ..., queue: _Optional[_Union[_columns_pb2.Queue, _Mapping]] = ..., client_id: _Optional[str] = ..., last_update_timestamp_ms: _Optional[int] = ...) -> None: ...

class ListLocksRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class ListLocksResponse(_message.Message):
    __slots__ = ("status", "locks")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    locks: _containers.RepeatedCompositeFieldContainer[QueueLock]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., locks: _Optional[_Iterable[_Union[QueueLock, _Mapping]]] = ...) -> None: ...

class LockQueuesRequest(_message.Message):
    __slots__ = ("group", "client_id", "queues")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    group: str
    client_id: str
    queues: _containers.RepeatedCompositeFieldContainer[_columns_pb2.Queue]
    def __init__(self, group: _Optional[str] = ..., client_id: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[_columns_pb2.Queue, _Mapping]]] = ...) -> None: ...

class LockQueuesResponse(_message.Message):
    __slots__ = ("status", "locked")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LOCKED_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    locked: _containers.RepeatedCompositeFieldContainer[_columns_pb2.Queue]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., locked: _Optional[_Iterable[_Union[_columns_pb2.Queue, _Mapping]]] = ...) -> None: ...

class UnlockQueuesRequest(_message.Message):
    __slots__ = ("group", "client_id", "queues")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    group: str
    client_id: str
    queues: _containers.RepeatedCompositeFieldContainer[_columns_pb2.Queue]
    def __init__(self, group: _Optional[str] = ..., client_id: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[_columns_pb2.Queue, _Mapping]]] = ...) -> None: ...

class UnlockQueuesResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ...) -> None: ...

class FaultRule(_message.Message):
    __slots__ = ("id", "rpc", "topic", "broker_name", "queue_id", "client_id", "action", "after", "times", "code", "message", "delay_ms", "struck", "kept", "group", "code_name")
    ID_FIELD_NUMBER: _ClassVar[int]
    RPC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BROKER_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    STRUCK_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CODE_NAME_FIELD_NUMBER: _ClassVar[int]
    id: int
    rpc: str
    topic: str
    broker_name: str
    queue_id: int
    client_id: str
    action: FaultAction
    after: bool
    times: int
    code: _definition_pb2.Code
    message: str
    delay_ms: int
    struck: int
    kept: int
    group: str
    code_name: str
    def __init__(self, id: _Optional[int] = ..., rpc: _Optional[str] = ..., topic: _Optional[str] = ..., broker_name: _Optional[str] = ..., queue_id: _Optional[int] = ..., client_id: _Optional[str] = ..., action: _Optional[_Union[FaultAction, str]] = ..., after: bool = ..., times: _Optional[int] = ..., code: _Optional[_Union[_definition_pb2.Code, str]] = ..., message: _Optional[str] = ..., delay_ms: _Optional[int] = ..., struck: _Optional[int] = ..., kept: _Optional[int] = ..., group: _Optional[str] = ..., code_name: _Optional[str] = ...) -> None: ...

class PutFaultRuleRequest(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: FaultRule
    def __init__(self, rule: _Optional[_Union[FaultRule, _Mapping]] = ...) -> None: ...

class PutFaultRuleResponse(_message.Message):
    __slots__ = ("status", "rule")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    rule: FaultRule
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., rule: _Optional[_Union[FaultRule, _Mapping]] = ...) -> None: ...

class ListFaultRulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFaultRulesResponse(_message.Message):
    __slots__ = ("status", "rules")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    rules: _containers.RepeatedCompositeFieldContainer[FaultRule]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., rules: _Optional[_Iterable[_Union[FaultRule, _Mapping]]] = ...) -> None: ...

class DeleteFaultRulesRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class DeleteFaultRulesResponse(_message.Message):
    __slots__ = ("status", "deleted")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    deleted: int
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., deleted: _Optional[int] = ...) -> None: ...

class ReleaseFaultRequest(_message.Message):
    __slots__ = ("id", "calls")
    ID_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    id: int
    calls: int
    def __init__(self, id: _Optional[int] = ..., calls: _Optional[int] = ...) -> None: ...

class ReleaseFaultResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ...) -> None: ...

class GetClockRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClockResponse(_message.Message):
    __slots__ = ("status", "now_ms", "is_manual", "newest_store_ms")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    IS_MANUAL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_STORE_MS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    now_ms: int
    is_manual: bool
    newest_store_ms: int
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., now_ms: _Optional[int] = ..., is_manual: bool = ..., newest_store_ms: _Optional[int] = ...) -> None: ...

class AdvanceClockRequest(_message.Message):
    __slots__ = ("by_ms", "to_ms")
    BY_MS_FIELD_NUMBER: _ClassVar[int]
    TO_MS_FIELD_NUMBER: _ClassVar[int]
    by_ms: int
    to_ms: int
    def __init__(self, by_ms: _Optional[int] = ..., to_ms: _Optional[int] = ...) -> None: ...

class AdvanceClockResponse(_message.Message):
    __slots__ = ("status", "now_ms")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    now_ms: int
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., now_ms: _Optional[int] = ...) -> None: ...

class ExpireNowRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExpireNowResponse(_message.Message):
    __slots__ = ("status", "expired_messages")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    expired_messages: int
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., expired_messages: _Optional[int] = ...) -> None: ...

class GetPropertiesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPropertiesResponse(_message.Message):
    __slots__ = ("status", "version", "broker_names", "properties")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BROKER_NAMES_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    version: str
    broker_names: _containers.RepeatedScalarFieldContainer[str]
    properties: _containers.RepeatedCompositeFieldContainer[Property]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., version: _Optional[str] = ..., broker_names: _Optional[_Iterable[str]] = ..., properties: _Optional[_Iterable[_Union[Property, _Mapping]]] = ...) -> None: ...

class Property(_message.Message):
    __slots__ = ("name", "value", "default_value", "unit", "doc")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    DOC_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    default_value: str
    unit: str
    doc: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., default_value: _Optional[str] = ..., unit: _Optional[str] = ..., doc: _Optional[str] = ...) -> None: ...
