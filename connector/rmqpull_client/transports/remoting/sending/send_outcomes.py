"""What the response to a send, or its absence, means (rules 1.18, 3.10.1)."""

from __future__ import annotations

import re

from rmqpull_client.errors import BrokerBusy, BrokerFailed, BrokerUnavailable, RequestRefused, RmqpullError
from rmqpull_client.transports.remoting.network import failures
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.sending.send_request import Outcome, SendRequest
from rmqpull_proto.remoting.codes import ResponseCode

_NOT_SAFE = frozenset(
    (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)
)
"""The message is stored, but a disk or a slave may lack it."""
_NO_SUCH_QUEUE = re.compile(r"queueId\[-?\d+\] is illegal")
_TOO_LARGE = re.compile("size exceeded")
_MOVED = frozenset((ResponseCode.TOPIC_NOT_EXIST,))


def judge(sent: Call) -> tuple[Outcome, RmqpullError | None]:
    """Returns what became of a request, and why it was not stored."""
    if sent.response is None:
        is_lost = isinstance(sent.error, (BrokerUnavailable, BrokerBusy))
        return (Outcome.LOST if is_lost else Outcome.REFUSED), sent.error
    assert sent.place is not None, "somebody has responded"
    code, remark = sent.response.code, sent.response.remark or ""
    if code == ResponseCode.SUCCESS:
        return Outcome.STORED, None
    refusal = failures.make_refusal(sent.place, sent.command, sent.response)
    if code in _NOT_SAFE:
        return Outcome.RETRY, refusal
    if failures.is_busy(sent.response):
        return Outcome.BUSY, refusal
    if code == ResponseCode.MESSAGE_ILLEGAL or (code == ResponseCode.SYSTEM_ERROR and _TOO_LARGE.search(remark)):
        return Outcome.ILLEGAL, refusal
    if code in _MOVED or _NO_SUCH_QUEUE.search(remark):
        return Outcome.MOVED, refusal
    # With code 1, 4.x also refuses access keys. Only failures of the broker may be temporary.
    return (Outcome.RETRY if isinstance(refusal, BrokerFailed) else Outcome.REFUSED), refusal


def make_last_error(request: SendRequest) -> RmqpullError:
    """Returns the error of a request that is not sent again."""
    error = request.error
    assert error is not None, "an attempt has failed"
    if not isinstance(error, RequestRefused):
        return error
    again = (
        f"{str(error).rstrip()} It was sent {request.retries} times, as often and as long as the retries and the time "
        "limit allow (options retryTimesWhenSendFailed and sendMsgTimeout). Some of its messages may be stored."
    )
    kind = BrokerFailed if error.code == ResponseCode.SYSTEM_ERROR.name else BrokerBusy
    return kind(error.code, again)
