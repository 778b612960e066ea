"""Turns failed calls into exceptions. No other module interprets the error codes and error texts of servers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container
from typing import NamedTuple

import grpc

from rmqpull_client.connection import Connection
from rmqpull_client.errors import (
    BrokerBusy,
    BrokerFailed,
    BrokerUnavailable,
    FilterRefused,
    GroupNotFound,
    HandshakeFailed,
    OffsetNotFound,
    QueueNotFound,
    RequestRefused,
    RmqpullError,
    TopicNotFound,
    TransactionTaken,
    Unserved,
)
from rmqpull_client.transports.away import ANSWERED, CLOSINGS_MAX, make_key
from rmqpull_client.transports.first_checks import ask_for_restart, name_first_check
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import MESSAGING, Method


class _Refusal(NamedTuple):
    """The exception for a status code, and what the user can do about it."""

    kind: type[RequestRefused] = RequestRefused
    advice: str = ""


_CHECK_KEYS = "Check the access key and the secret key (options accessKey and secretKey), and this user's permissions."
_SEE_LOG = "See the server's log."
_REFUSALS = {
    "UNAUTHENTICATED": _Refusal(advice=_CHECK_KEYS),
    "PERMISSION_DENIED": _Refusal(advice=_CHECK_KEYS),
    "UNAUTHORIZED": _Refusal(advice=_CHECK_KEYS),
    "FORBIDDEN": _Refusal(advice="Check the permissions of the topic, of the group, and of the access key's user."),
    "TOO_MANY_REQUESTS": _Refusal(
        BrokerBusy,
        "It was retried as long and as often as the request timeout and the retries allow (options requestTimeoutMs "
        "and requestRetries). Raise them, or send fewer requests.",
    ),
    "INTERNAL_ERROR": _Refusal(BrokerFailed, _SEE_LOG),
    "INTERNAL_SERVER_ERROR": _Refusal(BrokerFailed, _SEE_LOG),
    "PROXY_TIMEOUT": _Refusal(BrokerFailed),
    "UNKNOWN": _Refusal(advice=_SEE_LOG),
    "INTERNAL": _Refusal(advice=_SEE_LOG),
    "ILLEGAL_FILTER_EXPRESSION": _Refusal(FilterRefused),
    "TOPIC_NOT_FOUND": _Refusal(TopicNotFound),
    "CONSUMER_GROUP_NOT_FOUND": _Refusal(GroupNotFound),
    "OFFSET_NOT_FOUND": _Refusal(OffsetNotFound),
    "INVALID_TRANSACTION_ID": _Refusal(TransactionTaken),
}
"""By the code of RocketMQ or gRPC. Other codes become a plain RequestRefused."""
_REFUSALS_BY_TEXT = (
    (None, re.compile("does not support consumer to filter"), _Refusal(FilterRefused)),
    ("BAD_REQUEST", re.compile(r"^queueId\["), _Refusal(QueueNotFound)),
)
"""Refusals that only the server's text tells apart (rules 3.1), with their code, or None for any code."""

# CANCELLED counts, because a broker that shuts down cancels the calls in flight. A call that our own Cancellation ended
# is not retried.
_UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
# gRPC has no status for a failed handshake: it is UNAVAILABLE with one of these texts. The text about the peer's name
# is from gRPC 1.67.
_HANDSHAKE_TEXTS = (
    "handshake failed",
    "verification check failed",
    "hostname verification",
    "is not in peer certificate",
    "security handshaker",
)
_OTHER_HOST = "The server's certificate is for another host: use the host name of the certificate."
_HANDSHAKE_ADVICE = {
    "WRONG_VERSION_NUMBER": "The server does not speak TLS on this port: use another port, or turn TLS off (option "
    "tlsEnabled).",
    "hostname verification": _OTHER_HOST,
    "is not in peer certificate": _OTHER_HOST,
    "has expired": "Renew the server's certificate.",
}
# Older releases of gRPC do not say that a certificate has expired.
_CHECK_CA_FILE = (
    "Check the CA file (Tls.ca_file, option tlsCaFile): it must hold the authority that signed the certificate, which "
    "must not have expired."
)
_CLOSED_TEXTS = ("Socket closed", "Connection reset by peer", "Broken pipe")
_PULL_FAMILY = ("PullMessage", "QueryOffset", "GetOffset", "UpdateOffset")


def refuse_status(endpoints: str, method: Method, status: v2.Status) -> None:
    """Raises RequestRefused unless a status is OK."""
    if status.code != v2.Code.OK:
        code = v2.Code.Name(status.code) if status.code in v2.Code.values() else str(status.code)
        text = f"The broker at {endpoints} responded to {method.name} with {code}: {status.message}"
        raise _make_refusal(code, status.message, text)


def make_call_refusal(connection: Connection, method: Method, error: grpc.RpcError) -> RequestRefused:
    """Returns the exception for a gRPC status that a retry would not change."""
    code = error.code()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return make_unserved_error(connection.endpoints_and_namespace, method)
    details = error.details() or ""
    text = f"{method.name} at {connection.endpoints_and_namespace} failed with {code.name}: {details}"
    return _make_refusal(code.name, details, text)


def _make_refusal(code: str, message: str, text: str) -> RequestRefused:
    by_text = (
        refusal for of_code, words, refusal in _REFUSALS_BY_TEXT if of_code in (None, code) and words.search(message)
    )
    kind, advice = next(by_text, None) or _REFUSALS.get(code, _Refusal())
    return kind(code, f"{text.rstrip(' .:')}. {advice}" if advice else text)


def make_unserved_error(endpoints: str, method: Method) -> Unserved:
    """Returns the exception for a method that the server does not have, which names the missing service."""
    return Unserved(
        "UNIMPLEMENTED",
        f"The server at {endpoints} does not serve {method.name}. If it was restarted with other extensions, connect "
        f"or start the query again. Otherwise {_describe_lack(method)}",
    )


def _describe_lack(method: Method) -> str:
    service = method.path.split("/")[1]
    if service != MESSAGING.name:
        return f"it lacks {service}, which is an extension of rmqpull-broker."
    if method.name not in _PULL_FAMILY:
        return "it is not a proxy of RocketMQ 5: check the endpoints."
    return (
        "it lacks the pull methods of apache.rocketmq.v2 (PullMessage and the offsets), which reading requires. "
        "rmqpull-broker has them; Apache's own proxy does not."
    )


def is_unavailable(error: grpc.RpcError) -> bool:
    """Whether the server did not respond, so that another address or a retry may succeed."""
    return error.code() in _UNAVAILABLE


class FailedAttempts:
    """The addresses that did not respond to one request, with gRPC's text for each, over all retries.

    ``answered`` has the servers that have answered in this process, by ``make_key``.
    """

    def __init__(self, connection: Connection, method: Method, answered: Container[str] = ANSWERED) -> None:
        self._connection = connection
        self._method = method
        self._answered = answered
        self._closings: Counter[str] = Counter()
        self._texts: dict[str, str] = {}
        self._tries = 0

    def add(self, address: str, error: grpc.RpcError) -> None:
        """Records a failed attempt. A timeout does not replace an earlier, more informative text."""
        is_late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if not is_late or address not in self._texts:
            self._texts[address] = error.details() or error.code().name
        if not self._has_answered(address) and any(words in (error.details() or "") for words in _CLOSED_TEXTS):
            self._closings[address] += 1
        elif not is_late:  # gRPC's own back-off may outlast a try, so a timeout says nothing about the server
            del self._closings[address]

    @property
    def is_known(self) -> bool:
        """Whether one of the addresses has answered before: it is away, and may come back."""
        return any(map(self._has_answered, self._texts))

    def _has_answered(self, address: str) -> bool:
        return make_key(self._connection, address) in self._answered

    def is_handshake_failure(self, address: str) -> bool:
        """Whether the TLS handshake with an address failed."""
        return any(words in self._texts[address].lower() for words in _HANDSHAKE_TEXTS)

    def make_error(self) -> RmqpullError:
        """Counts one more try of all addresses, and returns its exception.

        It is HandshakeFailed if the handshake failed at every address, because a retry would not help.
        """
        self._tries += 1
        connection = self._connection
        texts = "; ".join(f"{at}: {self._texts[at]}" for at in connection.addresses if at in self._texts)
        if all(map(self.is_handshake_failure, self._texts)):
            return self._make_handshake_error(texts)
        if all(self.is_handshake_failure(at) or self._closes_always(at) for at in self._texts):
            return HandshakeFailed(self._describe_closings())
        limit_ms, name = connection.request_timeout_ms, "requestTimeoutMs"
        if self.is_known and connection.server_away_timeout_ms > limit_ms:
            limit_ms, name = connection.server_away_timeout_ms, "serverAwayTimeoutMs"
        limit = f"within {limit_ms} ms"
        if connection.request_retries is not None and self._tries > connection.request_retries:
            limit = f"in {self._tries} {'try' if self._tries == 1 else 'tries'}"
        check = name_first_check(texts, "endpoints")
        if self.is_known:
            check = ask_for_restart("broker", name if connection.request_retries is None else None)
        return BrokerUnavailable(
            f"No broker responded to {self._method.name} at {connection.endpoints} {limit} ({texts}). {check}"
            + self._advise_on_closed_socket(texts)
        )

    def _closes_always(self, address: str) -> bool:
        return self._closings[address] >= CLOSINGS_MAX

    def _describe_closings(self) -> str:
        addresses = ", ".join(address for address in self._texts if self._closes_always(address))
        asks = "Does it require TLS? Then set option tlsEnabled to true."
        if self._connection.tls is not None:
            asks = "Does it require a client certificate? Then set options tlsCertFile and tlsKeyFile."
        return (
            f"The server at {addresses} closed the connection {CLOSINGS_MAX} times in a row without a response to "
            f"{self._method.name}. {asks} Otherwise check that this is the address of a RocketMQ server."
        )

    def _make_handshake_error(self, texts: str) -> HandshakeFailed:
        advice = next((advice for words, advice in _HANDSHAKE_ADVICE.items() if words.lower() in texts.lower()), None)
        return HandshakeFailed(
            f"No TLS connection to {self._connection.endpoints} for {self._method.name}: {texts}. "
            f"{advice or _CHECK_CA_FILE}"
        )

    def _advise_on_closed_socket(self, texts: str) -> str:
        """Returns why a server may have closed the connection without a response."""
        if "Socket closed" not in texts:
            return ""
        if self._connection.tls is None:
            return " If the server requires TLS, enable it (option tlsEnabled)."
        return " If the server requires a client certificate, set it and its key (options tlsCertFile and tlsKeyFile)."
