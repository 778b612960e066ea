"""Errors as status codes."""

from __future__ import annotations

import pytest

from rmqpull_broker.core import errors
from rmqpull_broker.server.grpc.wire.status import make_status
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

REFUSALS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.BrokerError)]


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
def test_every_refusal_has_a_status_code(kind: type[errors.BrokerError]) -> None:
    status = make_status(kind("why"))
    assert (v2.Code.Name(status.code), status.message) == (kind.code, "why")


def test_an_unexpected_error_is_an_error_of_the_server() -> None:
    status = make_status(KeyError("x"))
    assert (v2.Code.Name(status.code), status.message) == ("INTERNAL_SERVER_ERROR", "KeyError: 'x'")
