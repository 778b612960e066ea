"""What errors of calls advise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import RequestRefused
from rmqpull_client.transports.grpc.failures import Unserved, make_refusal, refuse_status
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import COLUMNS, MESSAGING, STAGES, Method

ROUTE = MESSAGING.methods["QueryRoute"]


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        (v2.Code.UNAUTHORIZED, "no such user.", "no such user. Check options accessKey and secretKey"),
        (v2.Code.FORBIDDEN, "no read", "no read. The broker's settings of the topic, of the group, or of the user"),
        (v2.Code.TOO_MANY_REQUESTS, "", "TOO_MANY_REQUESTS. It was asked as often as requestTimeoutMs and"),
        (v2.Code.INTERNAL_SERVER_ERROR, "disk full", "disk full. The server's log tells more."),
    ],
)
def test_a_status_that_somebody_can_mend_says_how(code: Any, message: str, text: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        refuse_status("127.0.0.1:8081", ROUTE, v2.Status(code=code, message=message))
    assert text in str(refused.value)


def test_a_status_that_says_all_stands_alone() -> None:
    with pytest.raises(RequestRefused) as refused:
        refuse_status("127.0.0.1:8081", ROUTE, v2.Status(code=v2.Code.TOPIC_NOT_FOUND, message="No topic orders"))
    assert str(refused.value) == (
        "The broker at 127.0.0.1:8081 answered QueryRoute with TOPIC_NOT_FOUND: No topic orders"
    )


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, "Check options accessKey and secretKey, and what this user may do."),
        (grpc.StatusCode.INTERNAL, "The server's log tells more."),
    ],
)
def test_a_status_of_grpc_is_advised_on_too(code: grpc.StatusCode, advice: str) -> None:
    error = cast(grpc.RpcError, SimpleNamespace(code=lambda: code, details=lambda: "no"))
    expected = f"QueryRoute at 127.0.0.1:8081 failed with {code.name}: no. {advice}"
    assert str(make_refusal(Connection("127.0.0.1:8081"), ROUTE, error)) == expected


@pytest.mark.parametrize(
    ("method", "lack"),
    [
        (MESSAGING.methods["PullMessage"], "it lacks the pull family of apache.rocketmq.v2"),
        (MESSAGING.methods["GetOffset"], "it lacks the pull family of apache.rocketmq.v2"),
        (ROUTE, "it is no proxy of RocketMQ 5: check option endpoints."),
        (COLUMNS.methods["PullColumns"], "it lacks rmqpull.v1.ColumnService, which is an extension"),
        (STAGES.methods["CommitStages"], "it lacks rmqpull.v1.StageService, which is an extension"),
    ],
)
def test_what_a_server_lacks_is_told_by_what_it_was_asked(method: Method, lack: str) -> None:
    assert f"does not serve {method.name}. " in str(Unserved("127.0.0.1:8081", method))
    assert f"Otherwise {lack}" in str(Unserved("127.0.0.1:8081", method))
