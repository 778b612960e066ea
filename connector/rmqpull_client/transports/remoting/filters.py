"""Checks a message filter at the broker before anything is read with it."""

from __future__ import annotations

import json
from itertools import accumulate

from rmqpull_client.connection import wrap_name
from rmqpull_client.errors import FilterRefused, Unserved
from rmqpull_client.model import SQL92, MessageFilter, MessageQueue
from rmqpull_client.transports.message_filters import make_filter_error
from rmqpull_client.transports.port import log_reset
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.reading.pulls import PULLED, make_pull
from rmqpull_proto.filters.sql92 import NESTING_MAX, MalformedExpression, TooComplex
from rmqpull_proto.filters.sql92_grammar import parse
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand


def check_filter(
    channel: RemotingChannel, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter
) -> None:
    """Raises OptionError if the broker does not evaluate a filter.

    A broker ignores the filter of a pull if its SQL is malformed or its type is unknown (rules 6.1). So the client has
    the broker compile the expression first. A proxy confirms every expression without compiling it, and some compatible
    servers lack the request: then the client parses the expression itself. A pull follows, because only a pull shows
    that a broker refuses some TAG expressions.
    """
    target = Target.of(queue, may_use_slave=True)
    try:
        is_compiled = _let_compile(channel, target, _make_check(channel, group, queue, message_filter))
        if message_filter.expression_type == SQL92 and not is_compiled:
            _parse(message_filter.expression)
        response = channel.call(target, make_pull(group, queue, offset, 1, message_filter), accepted=PULLED)
    except FilterRefused as refusal:
        raise make_filter_error(message_filter, refusal) from None
    if response.code == ResponseCode.PULL_OFFSET_MOVED and response.remark == "OFFSET_RESET":
        log_reset(group, queue, int(response.fields.get("nextBeginOffset", "-1")))


def _let_compile(channel: RemotingChannel, target: Target, check: RemotingCommand) -> bool:
    """Returns whether the broker has compiled the expression. Raises FilterRefused if it cannot."""
    try:
        channel.call(target, check)
    except Unserved:
        return False
    return channel.cluster.is_proxied is False


def _parse(expression: str) -> None:
    """Raises FilterRefused where RocketMQ's parser refuses an expression, and above the parser's limits.

    A thousand parentheses overflow a broker's stack, and it then calls the expression malformed (rules 3.12.2).
    """
    depths = accumulate((sign == "(") - (sign == ")") for sign in expression)
    try:
        if max(depths, default=0) > NESTING_MAX:
            raise TooComplex(f"Its parentheses are nested deeper than {NESTING_MAX} levels")
        parse(expression)
    except MalformedExpression as error:
        raise FilterRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED.name, f"{error}.") from None


def _make_check(
    channel: RemotingChannel, group: str, queue: MessageQueue, message_filter: MessageFilter
) -> RemotingCommand:
    """Returns CHECK_CLIENT_CONFIG (rules 4.5). Names in a body are those of the broker."""
    namespace = channel.connection.namespace
    subscription = {
        "classFilterMode": False,
        "expressionType": message_filter.expression_type,
        "subString": message_filter.expression,
        "subVersion": 0,
        "topic": wrap_name(namespace, queue.topic),
    }
    body = {
        "clientId": "rmqpull",
        "group": wrap_name(namespace, group),
        "namespace": "",
        "subscriptionData": subscription,
    }
    return RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode())
