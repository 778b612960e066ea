"""Turns errors into the status codes of gRPC responses. No other module does."""

from __future__ import annotations

import grpc

from rmqpull_broker.core.admin.fault_rules import InjectedFailure
from rmqpull_broker.core.errors import BrokerError
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

OK = v2.Status(code=v2.Code.OK, message="OK")
PREVIOUSLY_RESET = v2.Status(code=v2.Code.OK, message="Offset has been previously reset")


def make_status(error: Exception) -> v2.Status:
    """Makes the status of an error; an unexpected one is INTERNAL_SERVER_ERROR."""
    if isinstance(error, (BrokerError, InjectedFailure)):
        return v2.Status(code=error.code, message=str(error))
    return v2.Status(code=v2.Code.INTERNAL_SERVER_ERROR, message=f"{type(error).__name__}: {error}")


def find_code_name(code: int) -> str:
    """Finds the name of a code; for an unknown code, its number."""
    return v2.Code.Name(v2.Code.ValueType(code)) if code in v2.Code.values() else str(code)


def make_stream_error(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Makes the gRPC error that ends a stream of requests: INVALID_ARGUMENT for the caller's errors, or INTERNAL."""
    status = make_status(error)
    is_callers = v2.Code.BAD_REQUEST <= status.code < v2.Code.INTERNAL_ERROR
    return grpc.StatusCode.INVALID_ARGUMENT if is_callers else grpc.StatusCode.INTERNAL, status.message
