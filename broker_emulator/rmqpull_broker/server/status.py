"""The only place where refusals become codes of the wire."""

from __future__ import annotations

from rmqpull_broker.core.errors import BrokerError
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

OK = v2.Status(code=v2.Code.OK, message="OK")


def status_of(error: Exception) -> v2.Status:
    """The status of a refusal; an error that is none of ours is INTERNAL_SERVER_ERROR."""
    if isinstance(error, BrokerError):
        return v2.Status(code=error.code, message=str(error))
    return v2.Status(code=v2.Code.INTERNAL_SERVER_ERROR, message=f"{type(error).__name__}: {error}")
