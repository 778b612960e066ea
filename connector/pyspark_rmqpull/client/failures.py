"""What went wrong with a call, in words: who was asked, what was seen, what to do."""

from __future__ import annotations

from collections.abc import Mapping

import grpc

from pyspark_rmqpull.connection import Connection
from pyspark_rmqpull.errors import BrokerUnavailable, HandshakeFailed, RequestRefused, RmqpullError
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import Method

# CANCELLED is what a call gets that meets a broker on its way down; nobody here cancels a unary call.
AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
_NO_TRUST = ("handshake failed", "verification check failed", "hostname verification", "security handshaker")
_ADVICE_ON_TLS = {
    "WRONG_VERSION_NUMBER": "The server does not speak TLS there: set tlsEnabled to false, or name its TLS port.",
    "hostname verification": "The server's certificate is for another host: endpoints must name it as that does.",
    "has expired": "Have the server's certificate renewed.",
}
_ADVICE_ON_KEYS = " Check options accessKey and secretKey, and what this user may do."


class Unserved(RequestRefused):
    """The server does not have this method."""

    def __init__(self, endpoints: str, method: Method) -> None:
        super().__init__(
            "UNIMPLEMENTED",
            f"The server at {endpoints} does not serve {method.name}. If it was restarted with other extensions, run "
            "the query again. Otherwise it lacks the pull family of apache.rocketmq.v2 (PullMessage and the offsets), "
            "which a source needs and Apache's own proxy does not have; rmqpull-broker does.",
        )


def is_no_trust(details: str) -> bool:
    """Whether a connection failed since TLS could not be agreed on, by what gRPC says of it."""
    return any(mark in details.lower() for mark in _NO_TRUST)


def absence(connection: Connection, method: Method, details: Mapping[str, str], rounds: int) -> RmqpullError:
    """The error when no address answered though all were asked ``rounds`` times, with what gRPC said of each."""
    said = "; ".join(f"{address}: {text}" for address, text in details.items())
    if all(map(is_no_trust, details.values())):
        advice = next((advice for mark, advice in _ADVICE_ON_TLS.items() if mark.lower() in said.lower()), None)
        return HandshakeFailed(
            f"No TLS connection to {connection.endpoints} for {method.name}: {said}. "
            f"{advice or 'Check option tlsCaFile: the authority that signed the certificate must be in it.'}"
        )
    limit = f"within {connection.request_timeout_ms} ms"
    if connection.request_retries is not None and rounds > connection.request_retries:
        limit = f"when asked {rounds} times, with requestRetries {connection.request_retries}"
    advice = ""
    if "Socket closed" in said:
        advice = (
            " If the server speaks TLS, set tlsEnabled."
            if connection.tls is None
            else " If the server asks for a certificate of clients, set tlsCertFile and tlsKeyFile to one it trusts."
        )
    return BrokerUnavailable(
        f"No broker answered {method.name} at {connection.endpoints} {limit} ({said}). Check option endpoints and that "
        f"the broker runs; requestTimeoutMs says how long to wait for one that restarts.{advice}"
    )


def refusal(connection: Connection, method: Method, code: grpc.StatusCode, details: str | None) -> RequestRefused:
    """The error for a gRPC status that another try would meet again."""
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Unserved(connection.place, method)
    is_of_keys = code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    text = f"{method.name} at {connection.place} failed with {code.name}: {details}"
    return RequestRefused(code.name, text + _ADVICE_ON_KEYS * is_of_keys)


def refuse(endpoints: str, method: Method, status: v2.Status) -> None:
    """Raises RequestRefused unless a status is OK."""
    if status.code != v2.Code.OK:
        code = v2.Code.Name(status.code) if status.code in v2.Code.values() else str(status.code)
        text = f"The broker at {endpoints} answered {method.name} with {code}: {status.message}"
        raise RequestRefused(code, text + _ADVICE_ON_KEYS * (status.code == v2.Code.UNAUTHORIZED))
