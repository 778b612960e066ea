"""Frames of pulls, and what their responses show (rules 3.1 to 3.3, 4.5). Pure.

A read needs thousands of pulls per second. So a frame is a template with numbers of fixed width, since brokers accept
leading zeros, and a response with messages is parsed by one regular expression. Any other response takes the general
path.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rmqpull_client.model import MessageFilter, MessageQueue
from rmqpull_client.transports.remoting.network.servers import Servers
from rmqpull_client.transports.remoting.reading.pull_plan import Span
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, decode_command

SUSPEND = 2
SUBSCRIPTION = 4
"""Bits of a pull's sysFlag: the broker may park it; it brings its own subscription (rules 1.6.1)."""
PULLED = frozenset(
    (
        int(ResponseCode.SUCCESS),
        int(ResponseCode.PULL_NOT_FOUND),
        int(ResponseCode.PULL_RETRY_IMMEDIATELY),
        int(ResponseCode.PULL_OFFSET_MOVED),
    )
)
"""The codes of pulls that the broker does not refuse (rules 3.3)."""
_OFFSET_DIGITS = 19  # of the largest 64-bit number
_COUNT_DIGITS = 10  # of the largest 32-bit number
# Placeholders for the numbers, of characters that are in no name of a group or topic: names come first in the header.
_OFFSET_MARK = "\x01" * _OFFSET_DIGITS
_COUNT_MARK = "\x02" * _COUNT_DIGITS
_OPAQUE = struct.Struct(">i")
_OPAQUE_AT = 13
"""Where the opaque of a frame with a binary header is: after length, mark, code, language and version (rules 4.2.1)."""


def make_pull(
    group: str,
    queue: MessageQueue,
    offset: int | str,
    count: int | str,
    message_filter: MessageFilter,
    suspend_ms: int = 0,
) -> RemotingCommand:
    """Returns a pull. It never sets a consumer offset. With ``suspend_ms`` the broker may park it."""
    fields = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(SUBSCRIPTION | (SUSPEND if suspend_ms else 0)),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": message_filter.expression,
        "subVersion": "0",
        "expressionType": message_filter.expression_type,
    }
    return RemotingCommand(RequestCode.PULL_MESSAGE, fields)


class PullFrames:
    """Makes the frames of a read's pulls."""

    def __init__(self, servers: Servers, group: str, message_filter: MessageFilter) -> None:
        self._servers = servers
        self._group = group
        self._filter = message_filter
        self._is_signed = servers.connection.credentials is not None
        self._templates: dict[MessageQueue, bytes] = {}

    def make(self, span: Span, opaque: int) -> bytes:
        """Returns the frame of the next pull of a span."""
        queue = span.queue
        if self._is_signed:  # the signature covers all numbers (rules 4.11)
            pull = make_pull(self._group, queue, span.offset, span.asked, self._filter)
            return self._servers.encode(pull, opaque, queue.broker_name)
        template = self._templates.get(queue)
        if template is None:
            template = self._templates[queue] = self._make_template(queue)
        return template % (_OPAQUE.pack(opaque), span.offset, span.asked)

    def _make_template(self, queue: MessageQueue) -> bytes:
        command = make_pull(self._group, queue, _OFFSET_MARK, _COUNT_MARK, self._filter)
        frame = self._servers.encode(command, 0, queue.broker_name)
        start, rest = (part.replace(b"%", b"%%") for part in (frame[:_OPAQUE_AT], frame[_OPAQUE_AT + _OPAQUE.size :]))
        rest = rest.replace(_OFFSET_MARK.encode(), b"%%0%dd" % _OFFSET_DIGITS, 1)
        rest = rest.replace(_COUNT_MARK.encode(), b"%%0%dd" % _COUNT_DIGITS, 1)
        return start + b"%b" + rest


class ReceivedPull(NamedTuple):
    """A response to a pull. Offsets are -1 if the response lacks them. ``remark`` is empty if messages follow."""

    opaque: int
    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker: int
    body_start: int
    remark: str = ""


# The header of a response with messages, as 5.x writes it (JSON) and as 4.x writes it (binary).
_JSON_FOUND = re.compile(
    rb'\{"code":0,"extFields":\{"suggestWhichBrokerId":"(\d+)",[^}]*?"nextBeginOffset":"(\d+)"[^}]*\},'
    rb'"flag":1,"language":"[A-Z]+","opaque":(\d+),'
)
_BINARY_FOUND = re.compile(
    rb"\x00\x00...(....)\x00\x00\x00\x01\x00\x00\x00\x05FOUND....\x00\x14suggestWhichBrokerId....(\d+)"
    rb"\x00\x0fnextBeginOffset....(\d+)",
    re.DOTALL,
)
_MARK = struct.Struct(">I")
_HEADER_MAX = (1 << 24) - 1


def parse_response(buffer: memoryview, start: int, end: int) -> ReceivedPull:
    """Reads the header of the frame ``buffer[start:end]``, which has no length. Raises WireError."""
    (mark,) = _MARK.unpack_from(buffer, start)
    header_start = start + 4
    body_start = header_start + (mark & _HEADER_MAX)
    if mark <= _HEADER_MAX:
        if (found := _JSON_FOUND.match(buffer, header_start, body_start)) is not None:
            broker, next_offset, opaque = found.groups()
            return ReceivedPull(int(opaque), 0, int(next_offset), -1, -1, int(broker), body_start)
    elif (found := _BINARY_FOUND.match(buffer, header_start, body_start)) is not None:
        opaque, broker, next_offset = found.groups()
        return ReceivedPull(int.from_bytes(opaque, "big"), 0, int(next_offset), -1, -1, int(broker), body_start)
    return _parse_any(decode_command(buffer[start:end]), body_start)


def _parse_any(command: RemotingCommand, body_start: int) -> ReceivedPull:
    def read(name: str) -> int:
        text = command.fields.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() else -1

    opaque = command.opaque if command.is_response else -1
    return ReceivedPull(
        opaque,
        command.code,
        read("nextBeginOffset"),
        read("minOffset"),
        read("maxOffset"),
        read("suggestWhichBrokerId"),
        body_start,
        command.remark or "",
    )


def count_records(buffer: memoryview, start: int, end: int) -> int:
    """Returns how many stored messages ``buffer[start:end]`` has, up to the first one with an impossible size."""
    count = 0
    while start + 4 <= end:
        (size,) = _MARK.unpack_from(buffer, start)
        start += max(size, 4)
        count += 1
    return count


class Step(Enum):
    """What follows from a response."""

    ROWS = "its messages are read"
    PASSED = "the filter dropped all messages before the next offset"
    LOST = "messages are lost"
    QUEUE_LOST = "the queue does not exist"
    RESET = "the consumer offset of the group was reset: the pull is repeated"
    AGAIN = "the broker cannot tell now: the pull is repeated after a pause"
    ASK_MASTER = "a slave does not decide this"
    REFUSED = "the broker refuses the pull"


@dataclass(frozen=True)
class Verdict:
    """What a response shows. For ``LOST``, the messages before ``until_offset`` are lost, because of ``reason``."""

    step: Step
    until_offset: int = -1
    reason: str = ""


_BUSY = frozenset((ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY))
_READ = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
_ROWS, _PASSED = Verdict(Step.ROWS), Verdict(Step.PASSED)
_AGAIN, _ASK_MASTER = Verdict(Step.AGAIN), Verdict(Step.ASK_MASTER)


def judge(response: ReceivedPull, offset: int, until_offset: int, is_filtered: bool, is_slave: bool) -> Verdict:
    """Returns what a response to a pull at ``offset`` shows.

    All messages before ``until_offset`` existed when the range was planned. Only a master decides that they are lost:
    a slave may have deleted more, and may not have the newest yet.
    """
    code = response.code
    has_progress = response.next_offset > offset
    if code == ResponseCode.SUCCESS:
        return _ROWS if has_progress else _AGAIN
    if code in _BUSY:
        return _AGAIN
    if response.remark == "NO_MATCHED_MESSAGE" and has_progress and is_filtered:
        return _PASSED
    if code == ResponseCode.PULL_OFFSET_MOVED and response.remark == "OFFSET_RESET":
        return Verdict(Step.RESET)
    is_missing = _is_missing(response)
    if not is_missing and code not in (*_READ, ResponseCode.PULL_OFFSET_MOVED):
        return Verdict(Step.REFUSED)
    if is_slave:
        return _ASK_MASTER
    return Verdict(Step.QUEUE_LOST) if is_missing else _judge_bounds(response, offset, until_offset)


def _is_missing(response: ReceivedPull) -> bool:
    """Whether the topic or the queue does not exist. Before 5.3.2, code 1 means an illegal queue (rules 3.1)."""
    is_illegal = response.code in (ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR)
    return response.code == ResponseCode.TOPIC_NOT_EXIST or (is_illegal and response.remark.startswith("queueId["))


def _judge_bounds(response: ReceivedPull, offset: int, until_offset: int) -> Verdict:
    """Judges a master's response without messages by the bounds of the queue, which the response has (rules 3.2.1)."""
    low, high = response.min_offset, response.max_offset
    if low < 0 or high < 0:
        return _AGAIN
    has = f"the broker has [{low}, {high})"
    if offset < low:
        return Verdict(Step.LOST, low, has)
    if offset >= high:
        return Verdict(Step.LOST, until_offset, f"{has}: the topic was truncated or created again")
    if response.next_offset > offset:  # files of the commit log or of the consume queue are gone
        return Verdict(Step.LOST, response.next_offset, f"{has}, and answered {response.remark} at offset {offset}")
    return _AGAIN
