"""The only place where refusals become codes of the wire."""

from __future__ import annotations

import grpc

from rmqpull_broker.core.errors import BrokerError
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

CODE_NAMES = frozenset(v2.Code.keys())

OK = v2.Status(code=v2.Code.OK, message="OK")
PREVIOUSLY_RESET = v2.Status(code=v2.Code.OK, message="Offset has been previously reset")


class InjectedFailure(Exception):
    """A fault rule wants the call to be answered with the code of that name, and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def status_of(error: Exception) -> v2.Status:
    """The status of a refusal; an error that is none of ours is INTERNAL_SERVER_ERROR."""
    if isinstance(error, (BrokerError, InjectedFailure)):
        return v2.Status(code=error.code, message=str(error))
    return v2.Status(code=v2.Code.INTERNAL_SERVER_ERROR, message=f"{type(error).__name__}: {error}")


def code_name(code: int) -> str:
    """A code's name on the wire; the number of one that has none."""
    return v2.Code.Name(v2.Code.ValueType(code)) if code in v2.Code.values() else str(code)


def stream_error_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """How a stream of requests is ended by a refusal: the caller's mistakes are INVALID_ARGUMENT, ours INTERNAL."""
    status = status_of(error)
    is_callers = v2.Code.BAD_REQUEST <= status.code < v2.Code.INTERNAL_ERROR
    return grpc.StatusCode.INVALID_ARGUMENT if is_callers else grpc.StatusCode.INTERNAL, status.message
