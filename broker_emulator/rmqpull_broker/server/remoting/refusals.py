"""Turns errors into responses of the remoting protocol (rules 4.2.4)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.admin.fault_rules import InjectedFailure
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    ConsumerGroupNotFound,
    Forbidden,
    IllegalTopic,
    TooManyRequests,
    TopicNotFound,
)
from rmqpull_broker.server.remoting.calls import RemotingCall
from rmqpull_proto.remoting.codes import ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError

_SAME_MEANING: Mapping[str, int] = {
    kind.code: kind.response_code
    for kind in (BadRequest, ConsumerGroupNotFound, Forbidden, IllegalTopic, TooManyRequests, TopicNotFound)
}
"""The codes for names of ``apache.rocketmq.v2`` in fault rules; all others become SYSTEM_ERROR."""


def refuse(call: RemotingCall, error: Exception) -> RemotingCommand | None:
    """Makes the response to a request that failed; None for an unexpected error."""
    if isinstance(error, Forbidden) and error.forbidden_type is not None:
        fields = {"forbiddenType": str(int(error.forbidden_type))}
        return call.respond(fields, code=error.response_code, remark=str(error))
    if isinstance(error, BrokerError):
        return call.respond(code=error.response_code, remark=str(error))
    if isinstance(error, InjectedFailure):
        return call.respond(code=find_response_code(error.code), remark=str(error))
    if isinstance(error, WireError):
        return call.respond(code=ResponseCode.SYSTEM_ERROR, remark=str(error))
    return None


def find_response_code(name: str) -> int:
    """Finds the code that a fault rule names, by its name in either protocol."""
    if name in ResponseCode.__members__:
        return int(ResponseCode[name])
    return _SAME_MEANING.get(name, int(ResponseCode.SYSTEM_ERROR))
