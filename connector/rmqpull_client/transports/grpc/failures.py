"""What went wrong with a call, in words: who was asked, what was seen, what to do."""

from __future__ import annotations

import grpc

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerUnavailable, HandshakeFailed, RequestRefused, RmqpullError
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import MESSAGING, Method

# CANCELLED is what a call gets that meets a broker on its way down. One that a Cancellation ended is not begun again.
AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
_NO_TRUST = ("handshake failed", "verification check failed", "hostname verification", "security handshaker")
_ADVICE_ON_TLS = {
    "WRONG_VERSION_NUMBER": "The server does not speak TLS there: set tlsEnabled to false, or name its TLS port.",
    "hostname verification": "The server's certificate is for another host: endpoints must name it as that does.",
    "has expired": "Have the server's certificate renewed.",
}
_ADVICE_ON_KEYS = "Check options accessKey and secretKey, and what this user may do."
_ADVICE_ON_LOG = "The server's log tells more."
_ADVICE = {
    "UNAUTHENTICATED": _ADVICE_ON_KEYS,
    "PERMISSION_DENIED": _ADVICE_ON_KEYS,
    "UNAUTHORIZED": _ADVICE_ON_KEYS,
    "FORBIDDEN": "The broker's settings of the topic, of the group, or of the user whom accessKey names forbid it.",
    "TOO_MANY_REQUESTS": "It was asked as often as requestTimeoutMs and requestRetries let: raise them, or ask less.",
    "UNKNOWN": _ADVICE_ON_LOG,
    "INTERNAL": _ADVICE_ON_LOG,
    "INTERNAL_ERROR": _ADVICE_ON_LOG,
    "INTERNAL_SERVER_ERROR": _ADVICE_ON_LOG,
}
"""What to do, by the code of gRPC or of RocketMQ; what other codes ask for, whoever meets them knows."""
_PULL_FAMILY = ("PullMessage", "QueryOffset", "GetOffset", "UpdateOffset")


class Unserved(RequestRefused):
    """The server does not have this method."""

    def __init__(self, endpoints: str, method: Method) -> None:
        super().__init__(
            "UNIMPLEMENTED",
            f"The server at {endpoints} does not serve {method.name}. If it was restarted with other extensions, run "
            f"the query again. Otherwise {_lack(method)}",
        )


def _lack(method: Method) -> str:
    service = method.path.split("/")[1]
    if service != MESSAGING.name:
        return f"it lacks {service}, which is an extension that rmqpull-broker has."
    if method.name not in _PULL_FAMILY:
        return "it is no proxy of RocketMQ 5: check option endpoints."
    return (
        "it lacks the pull family of apache.rocketmq.v2 (PullMessage and the offsets), which a source needs and "
        "Apache's own proxy does not have; rmqpull-broker does."
    )


class FailedAttempts:
    """Who did not answer one request, with what gRPC said of each, over all tries."""

    def __init__(self, connection: Connection, method: Method) -> None:
        self.method = method
        self._connection = connection
        self._said: dict[str, str] = {}
        self._tries = 0

    def add(self, address: str, error: grpc.RpcError) -> None:
        """Keeps what was said, unless it is only that the time is over, which was to be expected in the end."""
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED or address not in self._said:
            self._said[address] = error.details() or error.code().name

    def is_untrusted(self, address: str) -> bool:
        """Whether TLS could not be agreed on with an address."""
        return any(mark in self._said[address].lower() for mark in _NO_TRUST)

    def error(self) -> RmqpullError:
        """The error of one more try that failed: HandshakeFailed when no address is to be waited for."""
        self._tries += 1
        connection = self._connection
        said = "; ".join(f"{at}: {self._said[at]}" for at in connection.addresses if at in self._said)
        if all(map(self.is_untrusted, self._said)):
            return self._handshake_failed(said)
        limit = f"within {connection.request_timeout_ms} ms"
        if connection.request_retries is not None and self._tries > connection.request_retries:
            limit = f"when asked {self._tries} times, with requestRetries {connection.request_retries}"
        return BrokerUnavailable(
            f"No broker answered {self.method.name} at {connection.endpoints} {limit} ({said}). Check option endpoints "
            "and that the broker runs; requestTimeoutMs says how long to wait for one that restarts."
            + self._advice_on_closing(said)
        )

    def _handshake_failed(self, said: str) -> HandshakeFailed:
        advice = next((advice for mark, advice in _ADVICE_ON_TLS.items() if mark.lower() in said.lower()), None)
        return HandshakeFailed(
            f"No TLS connection to {self._connection.endpoints} for {self.method.name}: {said}. "
            f"{advice or 'Check option tlsCaFile: the authority that signed the certificate must be in it.'}"
        )

    def _advice_on_closing(self, said: str) -> str:
        """What a server that closes the connection without a word may have wanted."""
        if "Socket closed" not in said:
            return ""
        if self._connection.tls is None:
            return " If the server speaks TLS, set tlsEnabled."
        return " If the server asks for a certificate of clients, set tlsCertFile and tlsKeyFile to one it trusts."


def make_refusal(connection: Connection, method: Method, error: grpc.RpcError) -> RequestRefused:
    """The error for a gRPC status that another try would meet again."""
    code = error.code()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Unserved(connection.endpoints_and_namespace, method)
    text = f"{method.name} at {connection.endpoints_and_namespace} failed with {code.name}: {error.details()}"
    return RequestRefused(code.name, _advised(text, code.name))


def refuse_status(endpoints: str, method: Method, status: v2.Status) -> None:
    """Raises RequestRefused unless a status is OK."""
    if status.code != v2.Code.OK:
        code = v2.Code.Name(status.code) if status.code in v2.Code.values() else str(status.code)
        text = f"The broker at {endpoints} answered {method.name} with {code}: {status.message}"
        raise RequestRefused(code, _advised(text, code))


def _advised(text: str, code: str) -> str:
    return f"{text.rstrip(' .:')}. {_ADVICE[code]}" if code in _ADVICE else text
