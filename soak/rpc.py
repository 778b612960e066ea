"""Calls without retries: a producer must know which of its attempts got a response."""

from __future__ import annotations

from typing import Any

import grpc

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import Method
from soak.servers import NotAnswered

TIMEOUT_S = 60.0
_METADATA = (("x-mq-client-id", "soak"),)
_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 300),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)


class Calls:
    """A connection to the broker, which has the same endpoints after each restart."""

    def __init__(self, endpoints: str) -> None:
        self._channel = grpc.insecure_channel(endpoints, options=_OPTIONS)

    def __call__(self, method: Method, request: Any, timeout_s: float = TIMEOUT_S) -> Any:
        """Returns the response if its status is OK. Raises NotAnswered."""
        unary = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            answer = unary(request, timeout=timeout_s, metadata=_METADATA, wait_for_ready=True)
        except grpc.RpcError as error:
            raise NotAnswered(f"{method.name}: {error.code().name}") from None
        if answer.status.code != v2.Code.OK:
            raise NotAnswered(f"{method.name}: {v2.Code.Name(answer.status.code)} {answer.status.message}")
        return answer

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()
