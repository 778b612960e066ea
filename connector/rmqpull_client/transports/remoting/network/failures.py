"""Turns refusals into exceptions. No other module interprets the codes and texts of servers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rmqpull_client.errors import (
    BrokerFailed,
    FilterRefused,
    GroupNotFound,
    OffsetNotFound,
    OptionError,
    QueueNotFound,
    RequestRefused,
    RmqpullError,
    TopicNotFound,
    Unserved,
)
from rmqpull_client.transports.remoting.network.cluster import Place
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
_NAMES_MAX = 10
_NO_MEMBERS = re.compile(r'^no consumer for this group|"consumerGroupInfo" is null$|^$')
"""What a broker says, and what Apache's proxy says: the text of a NullPointerException, which Java may leave empty."""


class _Refusal(NamedTuple):
    """The exception for a response code, and what the user can do about it."""

    kind: type[RequestRefused] = RequestRefused
    advice: str = ""


_CHECK_KEYS = "Check the access key and the secret key (options accessKey and secretKey), and this user's permissions."
_SET_KEYS = "The cluster checks access keys: set options accessKey and secretKey."
_GIVE_RIGHTS = (
    "Grant the user of the access key PUB on the topic to write; SUB on topic and group to read, and with the access "
    "lists of 5.3 also GET on the topic."
)
_SEE_LOG = "See the broker's log."
_CREATE_GROUP = (
    "Create the group on each broker, for example with `mqadmin updateSubGroup -n NAME_SERVER -c CLUSTER -g GROUP`, or "
    "set autoCreateSubscriptionGroup=true on the brokers."
)
_NOT_ONLINE = "Its members have left: repeat the command, which then sets the consumer offsets itself."
_NO_OFFSETS = (
    "Without useServerSideResetOffset, a broker resets members only if it has a consumer offset of the group for each "
    "queue that can be written."
)
_STATIC = "Static topics, whose queues move between brokers, are not supported: use another topic."
_REFUSALS: dict[int, _Refusal] = {
    ResponseCode.SYSTEM_ERROR: _Refusal(BrokerFailed, _SEE_LOG),
    ResponseCode.NO_PERMISSION: _Refusal(advice="Check the permissions of the topic, of the group and of the broker."),
    ResponseCode.TOPIC_NOT_EXIST: _Refusal(TopicNotFound),
    ResponseCode.QUERY_NOT_FOUND: _Refusal(OffsetNotFound),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: _Refusal(FilterRefused),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: _Refusal(GroupNotFound, _CREATE_GROUP),
    ResponseCode.CONSUMER_NOT_ONLINE: _Refusal(advice=_NOT_ONLINE),
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
    (ResponseCode.SYSTEM_ERROR, re.compile(r"^THe consumer group <"), _Refusal(BrokerFailed, _NO_OFFSETS)),
    # In both kinds of access control, of 4.x and of 5.x, refusals differ only in their texts.
    (None, re.compile(r"(?i)username cannot be null|no accesskey is configured"), _Refusal(advice=_SET_KEYS)),
    (None, re.compile(r"has no permission to access|No (default )?permission for"), _Refusal(advice=_GIVE_RIGHTS)),
    (None, re.compile(r"(?i)signature|user:|aclexception|authenticat"), _Refusal(advice=_CHECK_KEYS)),
)
"""Refusals that only the server's text tells apart (rules 3.1, 4.11), with their code, or None for any code."""


def join_names(names: Sequence[str]) -> str:
    """Returns the first names, and how many more there are."""
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return f"{', '.join(names[:_NAMES_MAX])}{more}"


def name_request(code: int) -> str:
    """Returns RocketMQ's name of a request code."""
    try:
        return RequestCode(code).name
    except ValueError:
        return f"request {code}"


def name_response(code: int) -> str:
    """Returns RocketMQ's name of a response code."""
    try:
        return ResponseCode(code).name
    except ValueError:
        return str(code)


def is_left_to_master(place: Place, response: RemotingCommand) -> bool:
    """Whether this is the response of a slave that does not know the topic. Only its master decides whether it exists.

    Slaves learn new topics late, and one of 5.3.3 forgets all topics when one of them has attributes (apache/rocketmq
    issue 9403).
    """
    return place.is_slave and response.code == ResponseCode.TOPIC_NOT_EXIST


def is_busy(response: RemotingCommand) -> bool:
    """Whether the server asks for a later retry."""
    if response.code in _BUSY_CODES:
        return True
    return response.code == ResponseCode.SYSTEM_ERROR and bool(_BUSY_TEXTS.search(response.remark or ""))


def has_no_members(response: RemotingCommand) -> bool:
    """Whether a server says that a consumer group has no members (rules 3.6). Refusals may have the same code."""
    return response.code == ResponseCode.SYSTEM_ERROR and bool(_NO_MEMBERS.search(response.remark or ""))


def is_leaving(response: RemotingCommand) -> bool:
    """Whether the server is about to close the connection: the next request needs a new one."""
    return response.code == ResponseCode.GO_AWAY


def make_refusal(place: Place, request: RemotingCommand, response: RemotingCommand) -> RequestRefused:
    """Returns the exception for a response with a code that the caller does not expect."""
    code, name = name_response(response.code), name_request(request.code)
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


def make_proxy_error(place: Place) -> OptionError:
    """Returns the exception for a proxy that is asked for topics: it serves routes, and no list of topics."""
    return OptionError(
        f"The server at {place.address} is a proxy, which serves no list of topics, as option topicPattern requires. "
        "Name the topics instead, with option topic, or set option nameServers to the addresses of the cluster's name "
        "servers, whose port is 9876 by default."
    )


def make_proxy_group_error(place: Place) -> OptionError:
    """Returns the exception for a proxy that is asked for all groups, or for what a group consumes."""
    return OptionError(
        f"The server at {place.address} is a proxy, which lists no consumer groups, and not what they consume. Name "
        "group and topic instead, or set the name servers to those of the cluster."
    )


def make_proxy_reset_error(endpoints: str, group: str, members: str) -> OptionError:
    """Returns the exception for a proxy that is asked to reset a group with members."""
    return OptionError(
        f"Consumer group {group} has members: {members}. The server at {endpoints} is a proxy, which resets no such "
        "group. Set option nameServers to the addresses of the cluster's name servers, or stop the members first."
    )


def _advise_on_wrong_server(place: Place) -> str:
    if place.is_name_server:
        return (
            "It is not a name server, perhaps a broker: set option nameServers to the address of a name server, whose "
            "port is 9876 by default."
        )
    if place.is_proxy:
        return (
            "Apache's proxy does not serve this request. Set option nameServers to the addresses of the cluster's name "
            "servers, whose port is 9876 by default."
        )
    where = "Option brokerAddresses names this address" if place.is_given else "The broker registered this address"
    return (
        f"{where}. It may be that of a name server, the broker's second port (the one two below its own, which serves "
        "no pulls), or a RocketMQ other than 4.9 and 5."
    )
