"""Turns lost connections and refusals into exceptions. No other module interprets the codes and texts of servers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rmqpull_client.connection import MASTER_ID, Connection, parse_broker_addresses
from rmqpull_client.errors import (
    BrokerBusy,
    BrokerFailed,
    BrokerUnavailable,
    FilterRefused,
    GroupNotFound,
    HandshakeFailed,
    OffsetNotFound,
    OptionError,
    QueueNotFound,
    RequestRefused,
    RmqpullError,
    TopicNotFound,
    Unserved,
)
from rmqpull_client.transports.remoting.network.cluster import NAME_SERVER, Place, Target
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, WireError

_FAQ = re.compile(r"\s*See https?://rocketmq\.apache\.org/\S+ for further details\.?")
_BUSY_CODES = frozenset(
    (
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.GO_AWAY,
    )
)
_BUSY_TEXTS = re.compile(r"broker busy|system busy|name server not ready")
_NAMES_MOST = 10
_NO_MEMBERS = "no consumer for this group"
_FATAL = frozenset((Cause.HANDSHAKE, Cause.OTHER_PROTOCOL))


class _Refusal(NamedTuple):
    """The exception for a response code, and what the user can do about it."""

    kind: type[RequestRefused] = RequestRefused
    advice: str = ""


_CHECK_KEYS = "Check the access key and the secret key (options accessKey and secretKey), and this user's permissions."
_SET_KEYS = "The cluster checks access keys: set options accessKey and secretKey."
_GIVE_RIGHTS = (
    "Give the user of the access key the right: PUB of the topic to write; SUB of topic and group to read, and from "
    "5.0 on also GET of the topic."
)
_SEE_LOG = "See the broker's log."
_CREATE_GROUP = (
    "Create the group on each broker, for example with `mqadmin updateSubGroup -n NAME_SERVER -c CLUSTER -g GROUP`, or "
    "set autoCreateSubscriptionGroup=true on the brokers."
)
_STATIC = "Static topics, whose queues move between brokers, are not supported: use another topic."
_REFUSALS: dict[int, _Refusal] = {
    ResponseCode.SYSTEM_ERROR: _Refusal(BrokerFailed, _SEE_LOG),
    ResponseCode.NO_PERMISSION: _Refusal(advice="Check the permissions of the topic, of the group and of the broker."),
    ResponseCode.TOPIC_NOT_EXIST: _Refusal(TopicNotFound),
    ResponseCode.QUERY_NOT_FOUND: _Refusal(OffsetNotFound),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: _Refusal(FilterRefused),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: _Refusal(GroupNotFound, _CREATE_GROUP),
    ResponseCode.NOT_LEADER_FOR_QUEUE: _Refusal(advice=_STATIC),
    ResponseCode.USER_NOT_EXIST: _Refusal(advice=_CHECK_KEYS),
}
"""By response code. Other codes become a plain RequestRefused."""
_REFUSALS_BY_TEXT: tuple[tuple[int | None, re.Pattern[str], _Refusal], ...] = (
    (
        None,
        re.compile("does not support consumer to filter"),
        _Refusal(FilterRefused, "Set enablePropertyFilter=true on the brokers, or use filterType TAG."),
    ),
    (None, re.compile(r"^(request )?queueId\[-?\d+\] is illegal"), _Refusal(QueueNotFound)),
    (
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        re.compile("pull consumer is rejected"),
        _Refusal(
            advice="The broker accepts no clients that pull without being members of the group: set "
            "rejectPullConsumerEnable=false on the brokers."
        ),
    ),
    # Both kinds of access control, that of 4.x and that of 5.x, tell their refusals apart by their texts only.
    (None, re.compile(r"(?i)username cannot be null|no accesskey is configured"), _Refusal(advice=_SET_KEYS)),
    (None, re.compile(r"has no permission to access|No default permission for"), _Refusal(advice=_GIVE_RIGHTS)),
    (None, re.compile(r"(?i)signature|user:|aclexception|authenticat"), _Refusal(advice=_CHECK_KEYS)),
)
"""Refusals that only the server's text tells apart (rules 3.1, 4.11), with their code, or None for any code."""


def join_names(names: Sequence[str]) -> str:
    """Returns the first names, and how many more there are."""
    more = f" and {len(names) - _NAMES_MOST} more" if len(names) > _NAMES_MOST else ""
    return f"{', '.join(names[:_NAMES_MOST])}{more}"


def name_request(code: int) -> str:
    """Returns RocketMQ's name of a request code."""
    try:
        return RequestCode(code).name
    except ValueError:
        return f"request {code}"


def _name_response(code: int) -> str:
    try:
        return ResponseCode(code).name
    except ValueError:
        return str(code)


def is_busy(response: RemotingCommand) -> bool:
    """Whether the server asks to come back later."""
    if response.code in _BUSY_CODES:
        return True
    return response.code == ResponseCode.SYSTEM_ERROR and bool(_BUSY_TEXTS.search(response.remark or ""))


def has_no_members(response: RemotingCommand) -> bool:
    """Whether a broker says that a consumer group has no members (rules 3.6). Refusals may have the same code."""
    return response.code == ResponseCode.SYSTEM_ERROR and (response.remark or "").startswith(_NO_MEMBERS)


def is_leaving(response: RemotingCommand) -> bool:
    """Whether the server is about to close the connection: the next request needs another one."""
    return response.code == ResponseCode.GO_AWAY


def make_refusal(place: Place, request: RemotingCommand, response: RemotingCommand) -> RequestRefused:
    """Returns the exception for a response with a code that the caller does not expect."""
    code, name = _name_response(response.code), name_request(request.code)
    remark = _FAQ.sub("", response.remark or "").strip(" .,:!\n")
    text = f"The {place} responded to {name} with {code} ({response.code}): {remark or 'without a text'}"
    if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return Unserved(code, f"{text}. {_advise_on_wrong_server(place)}")
    by_text = (
        refusal
        for of_code, words, refusal in _REFUSALS_BY_TEXT
        if of_code in (None, response.code) and words.search(remark)
    )
    kind, advice = next(by_text, None) or _REFUSALS.get(response.code, _Refusal())
    return kind(code, f"{text}. {advice}".rstrip())


def make_bad_body_error(place: Place, request: RemotingCommand, error: WireError) -> BrokerFailed:
    """Returns the exception for a response with a body that cannot be read."""
    return BrokerFailed(
        "UNREADABLE_RESPONSE",
        f"The response of the {place} to {name_request(request.code)} cannot be read: {error}. Check that it is a "
        "RocketMQ server of version 4.9 or 5.",
    )


def make_unlisted_error(endpoints: str, error: BrokerFailed) -> RmqpullError:
    """Returns the exception for name servers that failed to list topics: some are configured so (rules 4.4)."""
    if not str(error).partition(". ")[0].endswith(": disable"):
        return error
    return OptionError(
        f"The name server at {endpoints} does not list topics, as option topicPattern requires: its "
        "enableAllTopicList is false. Name the topics instead, with option topic."
    )


def _advise_on_wrong_server(place: Place) -> str:
    if place.is_name_server:
        return (
            "It is not a name server, perhaps a broker: set option nameServers to the address of a name server, whose "
            "port is 9876 by default."
        )
    where = "Option brokerAddresses names this address" if place.is_given else "The broker registered this address"
    return (
        f"{where}. It may be that of a name server, the broker's second port (the one two below its own, which serves "
        "no pulls), or a RocketMQ other than 4.9 and 5."
    )


class Attempts:
    """The attempts of one request, with what was seen at each server, over all retries.

    ``is_out_of_tries`` tells that not time but the permitted number of tries has run out.
    """

    def __init__(self, connection: Connection, target: Target, request: RemotingCommand) -> None:
        self.is_out_of_tries = False
        self._connection = connection
        self._target = target
        self._request = request
        self._seen: dict[Place, ConnectionLost] = {}
        self._busy: tuple[Place, RemotingCommand] | None = None
        self._not_located: RmqpullError | None = None
        self._tries = 0

    def add_lost(self, place: Place, lost: ConnectionLost) -> None:
        """Records a lost connection. That time has run out does not replace a more telling text."""
        self._busy = self._not_located = None
        if lost.cause is not Cause.TIMED_OUT or place not in self._seen:
            self._seen[place] = lost

    def add_busy(self, place: Place, response: RemotingCommand) -> None:
        """Records a response that asks to come back later."""
        self._busy, self._not_located = (place, response), None

    def add_not_located(self, error: RmqpullError) -> None:
        """Records that no server for the request is known."""
        self._busy, self._not_located = None, error

    @property
    def is_hopeless(self) -> bool:
        """Whether no server speaks the protocol, or TLS, as it should. Another try would meet the same."""
        return bool(self._seen) and all(lost.cause in _FATAL for lost in self._seen.values())

    def count_try(self) -> None:
        """Counts one more try of all servers."""
        self._tries += 1

    def make_error(self) -> RmqpullError:
        """Returns the exception for all attempts."""
        if self._not_located is not None:
            return self._not_located
        if self._busy is not None:
            return self._make_busy_error(*self._busy)
        seen = self._seen
        if seen and all(lost.cause in (*_FATAL, Cause.CLOSED_IN_HANDSHAKE) for lost in seen.values()):
            return self._make_handshake_error()
        return BrokerUnavailable(f"{self._describe()}. {self._advise()}")

    def _make_busy_error(self, place: Place, response: RemotingCommand) -> BrokerBusy:
        code, remark = _name_response(response.code), (response.remark or "").strip(" .")
        text = f"The {place} responded to {name_request(self._request.code)} with {code} ({response.code}): {remark}. "
        if place.broker_id != MASTER_ID and not place.is_name_server:
            text += "It is a slave; set slaveReadEnable=true on it if it should serve reads while its master is away. "
        return BrokerBusy(
            code,
            f"{text}It was retried as long and as often as request timeout and retries permit (options "
            "requestTimeoutMs and requestRetries). Raise them, or send fewer requests.",
        )

    def _describe(self) -> str:
        connection, name = self._connection, name_request(self._request.code)
        limit = f"within {connection.request_timeout_ms} ms"
        retries = connection.request_retries
        if self.is_out_of_tries or (retries is not None and self._tries > retries):
            limit = f"in {self._tries} {'try' if self._tries == 1 else 'tries'}"
        whom = "No name server" if self._target == NAME_SERVER else f"Broker {self._target.broker_name}"
        did = "responded" if self._target == NAME_SERVER else "did not respond"
        texts = "; ".join(f"{place.address}: {lost}" for place, lost in self._seen.items())
        return f"{whom} {did} to {name} {limit} ({texts})"

    def _advise(self) -> str:
        closed = any(lost.cause is Cause.CLOSED for lost in self._seen.values())
        tls = ""
        if closed and self._connection.tls is None:
            tls = " If the server requires TLS, enable it (option tlsEnabled)."
        elif closed:
            tls = (
                " If the server requires a client certificate, set it and its key (options tlsCertFile and tlsKeyFile)."
            )
        if self._target == NAME_SERVER:
            return (
                "Check option nameServers, and that a name server is running there and can be reached from this "
                f"machine.{tls}"
            )
        if wrong := {place.address for place in self._seen}.intersection(self._connection.addresses):
            return f"{min(wrong)} is the address of a name server: give that of the broker (option brokerAddresses)."
        if any(place.is_given for place in self._seen):
            return (
                "Option brokerAddresses names this address: check that it leads to the broker from this machine, and "
                f"that the broker is running.{tls}"
            )
        return (
            f"The name server at {self._connection.name_servers} told this address. If it cannot be reached from this "
            "machine, as is common with brokers in containers or in other networks, set option brokerAddresses to one "
            f"that can, such as {self._target.broker_name}=HOST:PORT. {self._tell_other_entries()}"
            f"Otherwise check that the broker is running.{tls}"
        )

    def _tell_other_entries(self) -> str:
        """The brokers that brokerAddresses names instead: one of the names may be wrong."""
        if not self._connection.broker_addresses:
            return ""
        names = sorted({name for name, _ in parse_broker_addresses(self._connection.broker_addresses)})
        if self._target.broker_name in names:
            return ""
        return f"That option has entries for {join_names(names)} only: check these names. "

    def _make_handshake_error(self) -> HandshakeFailed:
        lost = next(iter(self._seen.values()))
        where = "; ".join(f"{place}: {lost}" for place, lost in self._seen.items())
        if lost.cause is Cause.OTHER_PROTOCOL:
            return HandshakeFailed(
                f"No server of RocketMQ's remoting protocol: {where}. {self._advise_on_protocol(lost.protocol)}"
            )
        return HandshakeFailed(f"No TLS connection to the {where}. {_advise_on_tls(str(lost), self._target)}")

    def _advise_on_protocol(self, protocol: str) -> str:
        if protocol == "TLS":
            return "The server requires TLS: enable it (option tlsEnabled)."
        speaks = f"The server speaks {protocol}. " if protocol else ""
        if self._target == NAME_SERVER:
            return (
                f"{speaks}Set option nameServers to the address of a name server, whose port is 9876 by default; the "
                "address of rmqpull-broker belongs into option endpoints."
            )
        if any(place.is_given for place in self._seen):
            return f"{speaks}Option brokerAddresses names this address: check that it is the broker's."
        return (
            f"{speaks}The name server at {self._connection.name_servers} told this address. From this machine it leads "
            "to another server, as is common with brokers in containers or in other networks: set option "
            f"brokerAddresses to one that leads to the broker, such as {self._target.broker_name}=HOST:PORT."
        )


def _advise_on_tls(text: str, target: Target) -> str:
    lower = text.lower()
    if "wrong version number" in lower or "record layer" in lower or "closed" in lower or "no response" in lower:
        return "The server does not speak TLS on this port: use another port, or no TLS (option tlsEnabled)."
    if "hostname mismatch" in lower or "ip address mismatch" in lower:
        how = "in option nameServers" if target == NAME_SERVER else "with option brokerAddresses"
        return f"The server's certificate is for another host: name the host of the certificate {how}."
    if "expired" in lower:
        return "Renew the server's certificate."
    if "alert" in lower:
        return "The server refuses the client certificate: check tlsCertFile and tlsKeyFile."
    return "Check the CA file (Tls.ca_file, option tlsCaFile): it must hold the authority that signed the certificate."
