"""A blocking client of one broker, for commands: a call gives its answer or ends the command with a sentence."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import click
import grpc

from rmqpull_broker.cli.failures import Refused, Unreachable
from rmqpull_broker.cli.values import ENDPOINTS_DEFAULT
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

COMPLETION_TIMEOUT_S = 1
"""Somebody waits with a finger on the tab key."""

_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]


class Connection:
    """Calls to the broker at ``endpoints``; each waits ``timeout_s`` seconds for its answer."""

    def __init__(self, endpoints: str, timeout_s: float) -> None:
        self.endpoints = endpoints
        self.timeout_s = timeout_s
        self._channel = grpc.insecure_channel(endpoints, options=_OPTIONS)
        self._metadata = (("x-mq-client-id", f"rmqpull-broker@{os.getpid()}"),)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._channel.close()

    def admin(self, name: str, request: Any) -> Any:
        """Calls a method of the admin service. Raises Refused and Unreachable."""
        return self.call(rpc.ADMIN, name, request)

    def columns(self, name: str, request: Any) -> Any:
        """Calls a method of the column service. Raises Refused and Unreachable."""
        return self.call(rpc.COLUMNS, name, request)

    def call(self, service: rpc.Service, name: str, request: Any) -> Any:
        """The answer of a unary method, whose status is OK. Raises Refused and Unreachable."""
        method = service.methods[name]
        call = self._channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        try:
            answer: Any = call(request, timeout=self.timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._failure(error, service, name) from None
        if answer.status.code != v2.Code.OK:
            raise Refused(answer.status.message, v2.Code.Name(answer.status.code))
        return answer

    def _failure(self, error: grpc.RpcError, service: rpc.Service, name: str) -> Exception:
        code, details = error.code(), error.details()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            extension = "admin" if service is rpc.ADMIN else "columns"
            return Refused(
                f"the broker at {self.endpoints} does not serve {name}: it is of another release, or was started "
                f"without --extensions {extension}",
                code.name,
            )
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unreachable(
                f"the broker at {self.endpoints} did not answer {name} within {self.timeout_s:g} s; "
                "wait longer with --timeout"
            )
        if code is grpc.StatusCode.UNAVAILABLE and not _was_connected(details or ""):
            return Unreachable(f"no broker answers at {self.endpoints}; start one, or name another with --endpoints")
        if code is grpc.StatusCode.UNAVAILABLE:
            return Unreachable(f"the connection to the broker at {self.endpoints} ended before {name} was answered")
        return Unreachable(f"the broker at {self.endpoints} failed at {name}: {code.name} {details}")


def _was_connected(details: str) -> bool:
    """Whether a call could have reached a broker; gRPC has one code for both, and tells them apart in words alone."""
    return not details.startswith(("failed to connect", "DNS resolution failed", "errors resolving"))


def asked_to_complete(ctx: click.Context, name: str, request: Any) -> Any | None:
    """The answer of the broker that a command line in the making names; None when there is none quickly."""
    endpoints = ctx.params.get("endpoints") or os.environ.get("RMQPULL_ENDPOINTS") or ENDPOINTS_DEFAULT
    try:
        with Connection(endpoints, COMPLETION_TIMEOUT_S) as connection:
            return connection.admin(name, request)
    except click.ClickException:
        return None
