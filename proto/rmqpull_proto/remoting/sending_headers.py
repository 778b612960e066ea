"""The headers of requests of producers and to them: one declared table for each (rules 4.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from rmqpull_proto.remoting.header_fields import Header, Int, Long
from rmqpull_proto.remoting.headers import RpcRequestHeader, TopicQueueRequestHeader, TopicRequestHeader


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
