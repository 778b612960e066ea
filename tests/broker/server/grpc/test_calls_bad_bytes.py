"""Bytes that are not requests, and headers of any text: each call gets a code, and nothing is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqpull_broker.testing import running_broker
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.hostile_input import limit_cpu
from tests.harness.rpc_client import RpcClient
from tests.harness.waiting import wait_until

TIMEOUT_S = 5.0
"""Short, because a pull may ask to wait as long as it can."""
UNARY = {
    name: method
    for name, method in rpc.MESSAGING.methods.items()
    if not method.client_streaming and name != "SyncLiteSubscription"
}
HEADERS = (
    "client-id",
    "language",
    "client-version",
    "namespace",
    "protocol",
    "request-id",
    "date-time",
    "session-token",
)
BAD_UTF_8 = b"\x0a\x04\x12\x02\xff\xfe"

Call = Callable[[str, bytes, dict[str, str]], str]


@pytest.fixture(scope="module")
def call() -> Iterator[Call]:
    """Calls a method with any bytes and headers, and returns the name of its code."""
    with running_broker({"orders": 2}) as broker, grpc.insecure_channel(broker.endpoints) as channel:

        def call_method(name: str, data: bytes, headers: dict[str, str]) -> str:
            method = UNARY[name]
            kind = channel.unary_stream if method.server_streaming else channel.unary_unary
            stub: Any = kind(method.path, lambda same: same, method.response.FromString)
            metadata = tuple((f"x-mq-{header}", value) for header, value in headers.items())
            answer = stub(data, timeout=TIMEOUT_S, metadata=metadata)
            return v2.Code.Name((next(iter(answer)) if method.server_streaming else answer).status.code)

        yield call_method
        wait_until(lambda: broker._server._calls.count == 0, "rid of all calls")


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("data", [BAD_UTF_8, b"\xff\xff"])
def test_bytes_that_are_no_request_are_refused(
    call: Call, name: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert call(name, data, {"client-id": "tester"}) in ("BAD_REQUEST", "TOPIC_NOT_FOUND")
    assert not caplog.records


@pytest.mark.edge
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(sorted(UNARY)),
    st.binary(max_size=40) | st.binary(max_size=8).map(lambda data: BAD_UTF_8[:2] + data),
    st.dictionaries(
        st.sampled_from(HEADERS),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=9) | st.just("9" * 500),
        max_size=3,
    ),
)
@limit_cpu
def test_any_bytes_with_any_headers_get_a_code(
    call: Call, caplog: pytest.LogCaptureFixture, name: str, data: bytes, headers: dict[str, str]
) -> None:
    with caplog.at_level(logging.WARNING):
        call(name, data, headers)
    assert not caplog.records


def test_a_telemetry_stream_ends_at_bytes_that_are_no_command(caplog: pytest.LogCaptureFixture) -> None:
    with running_broker() as broker:
        client = RpcClient(broker.endpoints)
        method = rpc.MESSAGING.methods["Telemetry"]
        stub = client.channel.stream_stream(method.path, lambda same: same, method.response.FromString)
        stream: Any = stub(iter([BAD_UTF_8]), timeout=60, metadata=(("x-mq-client-id", "tester"),))
        assert stream.code() is grpc.StatusCode.INVALID_ARGUMENT
        client.channel.close()
    assert not caplog.records
