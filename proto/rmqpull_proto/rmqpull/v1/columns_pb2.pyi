from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as _definition_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QueueSelector(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_SELECTOR_UNSPECIFIED: _ClassVar[QueueSelector]
    IN_TURN: _ClassVar[QueueSelector]
    BY_KEYS: _ClassVar[QueueSelector]

class PullStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PULL_STATUS_UNSPECIFIED: _ClassVar[PullStatus]
    FOUND: _ClassVar[PullStatus]
    NO_MATCHED_MESSAGE: _ClassVar[PullStatus]
    NO_MESSAGE_IN_QUEUE: _ClassVar[PullStatus]
    OFFSET_OVERFLOW_ONE: _ClassVar[PullStatus]
    OFFSET_OVERFLOW_BADLY: _ClassVar[PullStatus]
    OFFSET_TOO_SMALL: _ClassVar[PullStatus]
    NO_MATCHED_LOGIC_QUEUE: _ClassVar[PullStatus]
    NOT_REACHED: _ClassVar[PullStatus]
    OFFSET_RESET: _ClassVar[PullStatus]
    OFFSET_FOUND_NULL: _ClassVar[PullStatus]
    MESSAGE_WAS_REMOVING: _ClassVar[PullStatus]
QUEUE_SELECTOR_UNSPECIFIED: QueueSelector
IN_TURN: QueueSelector
BY_KEYS: QueueSelector
PULL_STATUS_UNSPECIFIED: PullStatus
FOUND: PullStatus
NO_MATCHED_MESSAGE: PullStatus
NO_MESSAGE_IN_QUEUE: PullStatus
OFFSET_OVERFLOW_ONE: PullStatus
OFFSET_OVERFLOW_BADLY: PullStatus
OFFSET_TOO_SMALL: PullStatus
NO_MATCHED_LOGIC_QUEUE: PullStatus
NOT_REACHED: PullStatus
OFFSET_RESET: PullStatus
OFFSET_FOUND_NULL: PullStatus
MESSAGE_WAS_REMOVING: PullStatus

class Queue(_message.Message):
    __slots__ = ("topic", "broker_name", "queue_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BROKER_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    broker_name: str
    queue_id: int
    def __init__(self, topic: _Optional[str] = ..., broker_name: _Optional[str] = ..., queue_id: _Optional[int] = ...) -> None: ...

class DescribeServerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeServerResponse(_message.Message):
    __slots__ = ("status", "version", "extensions", "pull_rows_max", "pull_bytes_max", "publish_bytes_max", "publish_rows_max", "publish_topics_max", "tells_commit_gaps", "takes_priorities")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    PULL_ROWS_MAX_FIELD_NUMBER: _ClassVar[int]
    PULL_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_ROWS_MAX_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TOPICS_MAX_FIELD_NUMBER: _ClassVar[int]
    TELLS_COMMIT_GAPS_FIELD_NUMBER: _ClassVar[int]
    TAKES_PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    version: str
    extensions: _containers.RepeatedScalarFieldContainer[str]
    pull_rows_max: int
    pull_bytes_max: int
    publish_bytes_max: int
    publish_rows_max: int
    publish_topics_max: int
    tells_commit_gaps: bool
    takes_priorities: bool
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., version: _Optional[str] = ..., extensions: _Optional[_Iterable[str]] = ..., pull_rows_max: _Optional[int] = ..., pull_bytes_max: _Optional[int] = ..., publish_bytes_max: _Optional[int] = ..., publish_rows_max: _Optional[int] = ..., publish_topics_max: _Optional[int] = ..., tells_commit_gaps: bool = ..., takes_priorities: bool = ...) -> None: ...

class PublishColumnsRequest(_message.Message):
    __slots__ = ("topic", "arrow_ipc", "default_topic", "default_topic_queue_nums", "queue_selector", "parts", "slice_rows_min")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ARROW_IPC_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TOPIC_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TOPIC_QUEUE_NUMS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SLICE_ROWS_MIN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    arrow_ipc: bytes
    default_topic: str
    default_topic_queue_nums: int
    queue_selector: QueueSelector
    parts: _containers.RepeatedCompositeFieldContainer[TopicPart]
    slice_rows_min: int
    def __init__(self, topic: _Optional[str] = ..., arrow_ipc: _Optional[bytes] = ..., default_topic: _Optional[str] = ..., default_topic_queue_nums: _Optional[int] = ..., queue_selector: _Optional[_Union[QueueSelector, str]] = ..., parts: _Optional[_Iterable[_Union[TopicPart, _Mapping]]] = ..., slice_rows_min: _Optional[int] = ...) -> None: ...

class TopicPart(_message.Message):
    __slots__ = ("topic", "row_count", "slice_rows_min")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    SLICE_ROWS_MIN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    row_count: int
    slice_rows_min: int
    def __init__(self, topic: _Optional[str] = ..., row_count: _Optional[int] = ..., slice_rows_min: _Optional[int] = ...) -> None: ...

class PublishColumnsResponse(_message.Message):
    __slots__ = ("status", "ranges")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    ranges: _containers.RepeatedCompositeFieldContainer[PublishedRange]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., ranges: _Optional[_Iterable[_Union[PublishedRange, _Mapping]]] = ...) -> None: ...

class PublishedRange(_message.Message):
    __slots__ = ("queue", "first_offset", "row_count")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    first_offset: int
    row_count: int
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., first_offset: _Optional[int] = ..., row_count: _Optional[int] = ...) -> None: ...

class PullColumnsRequest(_message.Message):
    __slots__ = ("group", "queues", "filter_expression", "columns", "max_rows", "max_bytes", "long_polling_timeout_ms", "suspend")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    FILTER_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    LONG_POLLING_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    group: str
    queues: _containers.RepeatedCompositeFieldContainer[QueuePull]
    filter_expression: _definition_pb2.FilterExpression
    columns: _containers.RepeatedScalarFieldContainer[str]
    max_rows: int
    max_bytes: int
    long_polling_timeout_ms: int
    suspend: bool
    def __init__(self, group: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueuePull, _Mapping]]] = ..., filter_expression: _Optional[_Union[_definition_pb2.FilterExpression, _Mapping]] = ..., columns: _Optional[_Iterable[str]] = ..., max_rows: _Optional[int] = ..., max_bytes: _Optional[int] = ..., long_polling_timeout_ms: _Optional[int] = ..., suspend: bool = ...) -> None: ...

class QueuePull(_message.Message):
    __slots__ = ("queue", "offset", "until_offset", "creation_id", "commit_offset")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CREATION_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    offset: int
    until_offset: int
    creation_id: str
    commit_offset: int
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., offset: _Optional[int] = ..., until_offset: _Optional[int] = ..., creation_id: _Optional[str] = ..., commit_offset: _Optional[int] = ...) -> None: ...

class PullColumnsResponse(_message.Message):
    __slots__ = ("status", "queues", "arrow_ipc")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    ARROW_IPC_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    queues: _containers.RepeatedCompositeFieldContainer[QueuePulled]
    arrow_ipc: bytes
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueuePulled, _Mapping]]] = ..., arrow_ipc: _Optional[bytes] = ...) -> None: ...

class QueuePulled(_message.Message):
    __slots__ = ("pull_status", "row_count", "next_offset", "min_offset", "max_offset")
    PULL_STATUS_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_OFFSET_FIELD_NUMBER: _ClassVar[int]
    pull_status: PullStatus
    row_count: int
    next_offset: int
    min_offset: int
    max_offset: int
    def __init__(self, pull_status: _Optional[_Union[PullStatus, str]] = ..., row_count: _Optional[int] = ..., next_offset: _Optional[int] = ..., min_offset: _Optional[int] = ..., max_offset: _Optional[int] = ...) -> None: ...

class QueryBoundsRequest(_message.Message):
    __slots__ = ("topics", "query_id")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicBoundsRequest]
    query_id: str
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicBoundsRequest, _Mapping]]] = ..., query_id: _Optional[str] = ...) -> None: ...

class TopicBoundsRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class QueryBoundsResponse(_message.Message):
    __slots__ = ("status", "topics", "instance_id")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    topics: _containers.RepeatedCompositeFieldContainer[TopicBounds]
    instance_id: str
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicBounds, _Mapping]]] = ..., instance_id: _Optional[str] = ...) -> None: ...

class TopicBounds(_message.Message):
    __slots__ = ("status", "topic", "creation_id", "queues")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CREATION_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    topic: str
    creation_id: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueBounds]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., topic: _Optional[str] = ..., creation_id: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueBounds, _Mapping]]] = ...) -> None: ...

class QueueBounds(_message.Message):
    __slots__ = ("broker_name", "queue_id", "min_offset", "max_offset", "rows_lost")
    BROKER_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ROWS_LOST_FIELD_NUMBER: _ClassVar[int]
    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    rows_lost: int
    def __init__(self, broker_name: _Optional[str] = ..., queue_id: _Optional[int] = ..., min_offset: _Optional[int] = ..., max_offset: _Optional[int] = ..., rows_lost: _Optional[int] = ...) -> None: ...

class CutRangesRequest(_message.Message):
    __slots__ = ("ranges",)
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[RangeToCut]
    def __init__(self, ranges: _Optional[_Iterable[_Union[RangeToCut, _Mapping]]] = ...) -> None: ...

class RangeToCut(_message.Message):
    __slots__ = ("queue", "from_offset", "until_offset", "byte_max", "parts_max")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTE_MAX_FIELD_NUMBER: _ClassVar[int]
    PARTS_MAX_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    from_offset: int
    until_offset: int
    byte_max: int
    parts_max: int
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., from_offset: _Optional[int] = ..., until_offset: _Optional[int] = ..., byte_max: _Optional[int] = ..., parts_max: _Optional[int] = ...) -> None: ...

class CutRangesResponse(_message.Message):
    __slots__ = ("status", "ranges")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    ranges: _containers.RepeatedCompositeFieldContainer[CutRange]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., ranges: _Optional[_Iterable[_Union[CutRange, _Mapping]]] = ...) -> None: ...

class CutRange(_message.Message):
    __slots__ = ("parts", "has_more")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[RangePart]
    has_more: bool
    def __init__(self, parts: _Optional[_Iterable[_Union[RangePart, _Mapping]]] = ..., has_more: bool = ...) -> None: ...

class RangePart(_message.Message):
    __slots__ = ("until_offset", "byte_count")
    UNTIL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTE_COUNT_FIELD_NUMBER: _ClassVar[int]
    until_offset: int
    byte_count: int
    def __init__(self, until_offset: _Optional[int] = ..., byte_count: _Optional[int] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("group", "offsets")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    group: str
    offsets: _containers.RepeatedCompositeFieldContainer[QueueOffset]
    def __init__(self, group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[QueueOffset, _Mapping]]] = ...) -> None: ...

class QueueOffset(_message.Message):
    __slots__ = ("queue", "offset")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    offset: int
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., offset: _Optional[int] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ("status", "previous_offsets")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    previous_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., previous_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class ReportRowsLostRequest(_message.Message):
    __slots__ = ("query_id", "batch_id", "ranges")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    batch_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[LostRange]
    def __init__(self, query_id: _Optional[str] = ..., batch_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[LostRange, _Mapping]]] = ...) -> None: ...

class LostRange(_message.Message):
    __slots__ = ("queue", "from_offset", "until_offset")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    from_offset: int
    until_offset: int
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., from_offset: _Optional[int] = ..., until_offset: _Optional[int] = ...) -> None: ...

class ReportRowsLostResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ...) -> None: ...

class SendMessageBackRequest(_message.Message):
    __slots__ = ("group", "queue", "queue_offset", "delay_level", "max_reconsume_times")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELAY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_RECONSUME_TIMES_FIELD_NUMBER: _ClassVar[int]
    group: str
    queue: Queue
    queue_offset: int
    delay_level: int
    max_reconsume_times: int
    def __init__(self, group: _Optional[str] = ..., queue: _Optional[_Union[Queue, _Mapping]] = ..., queue_offset: _Optional[int] = ..., delay_level: _Optional[int] = ..., max_reconsume_times: _Optional[int] = ...) -> None: ...

class SendMessageBackResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ...) -> None: ...
