"""The headers of requests of consumers that pop (rules 3.17.1). Times are in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from rmqpull_proto.remoting.header_fields import Header, Int, Long
from rmqpull_proto.remoting.headers import TopicQueueRequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessageRequestHeader(TopicQueueRequestHeader):
    """POP_MESSAGE. ``queue_id`` -1 means all queues; a ``born_time`` of 0 is the time of arrival."""

    consumer_group: str
    max_msg_nums: Int
    invisible_time: Long
    poll_time: Long
    born_time: Long = 0
    init_mode: Int
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessageResponseHeader(Header):
    """The response to a pop or to a peek, for each code. ``pop_infos`` has the form of the last three fields."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int
    rest_num: Long
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AckMessageRequestHeader(TopicQueueRequestHeader):
    """ACK_MESSAGE. ``extra_info`` is the receipt of the delivery."""

    consumer_group: str
    extra_info: str
    offset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInvisibleTimeRequestHeader(TopicQueueRequestHeader):
    """CHANGE_MESSAGE_INVISIBLETIME. ``extra_info`` is the receipt of the delivery."""

    consumer_group: str
    extra_info: str
    offset: Long
    invisible_time: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInvisibleTimeResponseHeader(Header):
    """The response to CHANGE_MESSAGE_INVISIBLETIME, for each code."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekMessageRequestHeader(TopicQueueRequestHeader):
    """PEEK_MESSAGE: what a pop would find, without a delivery."""

    max_msg_nums: Int
    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRequestHeader(TopicQueueRequestHeader):
    """NOTIFICATION: whether there are messages, and a wait for them."""

    consumer_group: str
    poll_time: Long
    born_time: Long = 0
    order: bool | None = None
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationResponseHeader(Header):
    """The response to NOTIFICATION."""

    has_msg: bool
    polling_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfoRequestHeader(TopicQueueRequestHeader):
    """POLLING_INFO: how many pops of a group wait."""

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfoResponseHeader(Header):
    """The response to POLLING_INFO."""

    polling_num: Int
