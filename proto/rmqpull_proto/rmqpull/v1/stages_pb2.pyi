from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as _definition_pb2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as _columns_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Transaction(_message.Message):
    __slots__ = ("id", "batch_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    batch_id: int
    def __init__(self, id: _Optional[str] = ..., batch_id: _Optional[int] = ...) -> None: ...

class StageColumnsRequest(_message.Message):
    __slots__ = ("transaction", "stage_id", "sequence", "topic", "arrow_ipc", "queue_selector", "timeout_ms", "parts", "slice_rows_min")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    STAGE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ARROW_IPC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SLICE_ROWS_MIN_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    stage_id: str
    sequence: int
    topic: str
    arrow_ipc: bytes
    queue_selector: _columns_pb2.QueueSelector
    timeout_ms: int
    parts: _containers.RepeatedCompositeFieldContainer[_columns_pb2.TopicPart]
    slice_rows_min: int
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ..., stage_id: _Optional[str] = ..., sequence: _Optional[int] = ..., topic: _Optional[str] = ..., arrow_ipc: _Optional[bytes] = ..., queue_selector: _Optional[_Union[_columns_pb2.QueueSelector, str]] = ..., timeout_ms: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[_columns_pb2.TopicPart, _Mapping]]] = ..., slice_rows_min: _Optional[int] = ...) -> None: ...

class StageColumnsResponse(_message.Message):
    __slots__ = ("status", "is_committed")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    IS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    is_committed: bool
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., is_committed: bool = ...) -> None: ...

class KeepStagesRequest(_message.Message):
    __slots__ = ("transaction", "timeout_ms")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    timeout_ms: int
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class KeepStagesResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ...) -> None: ...

class CommitStagesRequest(_message.Message):
    __slots__ = ("transaction", "stages", "record", "row_count", "refuse_gap")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSE_GAP_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    stages: _containers.RepeatedCompositeFieldContainer[CommittedStage]
    record: CommitRecord
    row_count: int
    refuse_gap: bool
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ..., stages: _Optional[_Iterable[_Union[CommittedStage, _Mapping]]] = ..., record: _Optional[_Union[CommitRecord, _Mapping]] = ..., row_count: _Optional[int] = ..., refuse_gap: bool = ...) -> None: ...

class CommitRecord(_message.Message):
    __slots__ = ("plan", "destination", "row_count", "digest")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    plan: bytes
    destination: str
    row_count: int
    digest: bytes
    def __init__(self, plan: _Optional[bytes] = ..., destination: _Optional[str] = ..., row_count: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class CommittedStage(_message.Message):
    __slots__ = ("stage_id", "call_count")
    STAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    stage_id: str
    call_count: int
    def __init__(self, stage_id: _Optional[str] = ..., call_count: _Optional[int] = ...) -> None: ...

class CommitStagesResponse(_message.Message):
    __slots__ = ("status", "was_committed", "was_compared", "missing_count", "is_refused")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    WAS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    WAS_COMPARED_FIELD_NUMBER: _ClassVar[int]
    MISSING_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    was_committed: bool
    was_compared: bool
    missing_count: int
    is_refused: bool
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ..., was_committed: bool = ..., was_compared: bool = ..., missing_count: _Optional[int] = ..., is_refused: bool = ...) -> None: ...

class DropStagesRequest(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class DropStagesResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _definition_pb2.Status
    def __init__(self, status: _Optional[_Union[_definition_pb2.Status, _Mapping]] = ...) -> None: ...
