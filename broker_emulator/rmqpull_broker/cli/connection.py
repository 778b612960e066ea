"""A blocking client of one broker. A call returns its response, or ends the command with a message."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import grpc

from rmqpull_client.cli.output import Refused, Unreachable
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]


class Connection:
    """Calls the broker at ``endpoints``, each time with a timeout of ``timeout_s`` seconds."""

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

    def call(self, service: rpc.Service, name: str, request: Any) -> Any:
        """Calls a unary method. Returns a response with the status OK. Raises Refused and Unreachable."""
        method = service.methods[name]
        call = self._channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        try:
            response: Any = call(request, timeout=self.timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._failure(error, service, name) from None
        if response.status.code != v2.Code.OK:
            raise Refused(response.status.message, v2.Code.Name(response.status.code))
        return response

    def _failure(self, error: grpc.RpcError, service: rpc.Service, name: str) -> Exception:
        code, details = error.code(), error.details()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            extension = "admin" if service is rpc.ADMIN else "columns"
            return Refused(
                f"the broker at {self.endpoints} does not serve {name}: it has another version, or was started "
                f"without --extensions {extension}",
                code.name,
            )
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unreachable(
                f"the broker at {self.endpoints} did not answer {name} within {self.timeout_s:g} s; "
                "set a longer --timeout"
            )
        if code is grpc.StatusCode.UNAVAILABLE and not _was_connected(details or ""):
            return Unreachable(f"no broker answers at {self.endpoints}; start one, or set --endpoints")
        if code is grpc.StatusCode.UNAVAILABLE:
            return Unreachable(f"the connection to the broker at {self.endpoints} broke before {name} was answered")
        return Unreachable(f"{name} failed at the broker at {self.endpoints}: {code.name} {details}")


def _was_connected(details: str) -> bool:
    """Whether a call may have reached a broker. gRPC has one code for both cases; only the text differs."""
    return not details.startswith(("failed to connect", "DNS resolution failed", "errors resolving"))
