"""Statuses become exceptions, with advice for the user."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import (
    BrokerBusy,
    BrokerFailed,
    FilterRefused,
    GroupNotFound,
    HandshakeFailed,
    OffsetNotFound,
    QueueNotFound,
    RequestRefused,
    TopicNotFound,
    TransactionTaken,
)
from rmqpull_client.transports.grpc.failures import (
    FailedAttempts,
    make_call_refusal,
    make_unserved_error,
    refuse_status,
)
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import COLUMNS, MESSAGING, STAGES, Method

ROUTE = MESSAGING.methods["QueryRoute"]


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        (v2.Code.UNAUTHORIZED, "no such user.", "no such user. Check the access key and the secret key"),
        (v2.Code.FORBIDDEN, "no read", "no read. Check the permissions of the topic, of the group, and"),
        (v2.Code.TOO_MANY_REQUESTS, "", "TOO_MANY_REQUESTS. It was retried as long and as often as"),
        (v2.Code.INTERNAL_SERVER_ERROR, "disk full", "disk full. See the server's log."),
    ],
)
def test_the_error_advises_what_to_do(code: Any, message: str, text: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        refuse_status("127.0.0.1:8081", ROUTE, v2.Status(code=code, message=message))
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (v2.Code.TOO_MANY_REQUESTS, "", BrokerBusy),
        (v2.Code.INTERNAL_SERVER_ERROR, "", BrokerFailed),
        (v2.Code.INTERNAL_ERROR, "", BrokerFailed),
        (v2.Code.PROXY_TIMEOUT, "", BrokerFailed),
        (v2.Code.ILLEGAL_FILTER_EXPRESSION, "", FilterRefused),
        (
            v2.Code.INTERNAL_SERVER_ERROR,
            "The broker does not support consumer to filter message by SQL92",
            FilterRefused,
        ),
        (v2.Code.TOPIC_NOT_FOUND, "", TopicNotFound),
        (v2.Code.BAD_REQUEST, "The broker does not support consumer to filter message by SQL92", FilterRefused),
        (v2.Code.BAD_REQUEST, "queueId[9] is illegal", QueueNotFound),
        (v2.Code.BAD_REQUEST, "request queueId[9] is illegal", RequestRefused),
        (v2.Code.CONSUMER_GROUP_NOT_FOUND, "", GroupNotFound),
        (v2.Code.OFFSET_NOT_FOUND, "", OffsetNotFound),
        (v2.Code.INVALID_TRANSACTION_ID, "", TransactionTaken),
        (v2.Code.BAD_REQUEST, "", RequestRefused),
        (12_345, "", RequestRefused),
    ],
)
def test_a_status_code_becomes_an_exception(code: Any, message: str, kind: type[RequestRefused]) -> None:
    with pytest.raises(RequestRefused) as refused:
        refuse_status("127.0.0.1:8081", ROUTE, v2.Status(code=code, message=message))
    assert type(refused.value) is kind


def test_a_status_without_advice_is_passed_on() -> None:
    with pytest.raises(RequestRefused) as refused:
        refuse_status("127.0.0.1:8081", ROUTE, v2.Status(code=v2.Code.TOPIC_NOT_FOUND, message="No topic orders"))
    assert str(refused.value) == (
        "The broker at 127.0.0.1:8081 responded to QueryRoute with TOPIC_NOT_FOUND: No topic orders"
    )


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (
            grpc.StatusCode.PERMISSION_DENIED,
            "Check the access key and the secret key (options accessKey and secretKey), and this user's permissions.",
        ),
        (grpc.StatusCode.INTERNAL, "See the server's log."),
    ],
)
def test_the_error_of_a_grpc_status_advises_what_to_do(code: grpc.StatusCode, advice: str) -> None:
    error = cast(grpc.RpcError, SimpleNamespace(code=lambda: code, details=lambda: "no"))
    expected = f"QueryRoute at 127.0.0.1:8081 failed with {code.name}: no. {advice}"
    assert str(make_call_refusal(Connection("127.0.0.1:8081"), ROUTE, error)) == expected


@pytest.mark.parametrize(
    ("method", "lack"),
    [
        (MESSAGING.methods["PullMessage"], "it lacks the pull methods of apache.rocketmq.v2"),
        (MESSAGING.methods["GetOffset"], "it lacks the pull methods of apache.rocketmq.v2"),
        (ROUTE, "it is not a proxy of RocketMQ 5: check the endpoints."),
        (COLUMNS.methods["PullColumns"], "it lacks rmqpull.v1.ColumnService, which is an extension"),
        (STAGES.methods["CommitStages"], "it lacks rmqpull.v1.StageService, which is an extension"),
    ],
)
def test_the_error_says_what_the_server_lacks(method: Method, lack: str) -> None:
    assert f"does not serve {method.name}. " in str(make_unserved_error("127.0.0.1:8081", method))
    assert f"Otherwise {lack}" in str(make_unserved_error("127.0.0.1:8081", method))


# --- servers that close each connection -------------------------------------------------------------------------------

SERVER = "127.0.0.1:1"
CLOSED = (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: Socket closed")
RESET = (grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer")
BROKEN = (grpc.StatusCode.UNAVAILABLE, "sendmsg:Broken pipe")
ABSENT = (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: Connection refused")
LATE = (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")


@pytest.mark.parametrize(
    ("attempts", "is_refused"),
    [
        ([CLOSED] * 4, True),
        ([CLOSED] * 3, False),
        ([CLOSED, RESET, BROKEN, CLOSED], True),  # as far as the client had come when the server closed
        # gRPC may wait for longer than a try before it connects again.
        ([CLOSED, LATE, CLOSED, LATE, CLOSED, LATE, CLOSED], True),
        ([CLOSED, CLOSED, CLOSED, ABSENT, CLOSED], False),
        ([LATE] * 8, False),
    ],
)
def test_a_server_that_closes_four_connections_in_a_row_is_not_tried_again(
    attempts: list[tuple[grpc.StatusCode, str]], is_refused: bool
) -> None:
    failed = FailedAttempts(Connection(SERVER), ROUTE, answered=())
    for code, details in attempts:
        error = SimpleNamespace(code=lambda code=code: code, details=lambda details=details: details)
        failed.add(SERVER, cast("grpc.RpcError", error))
    assert isinstance(failed.make_error(), HandshakeFailed) == is_refused
