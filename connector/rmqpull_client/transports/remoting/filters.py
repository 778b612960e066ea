"""Checks a message filter at the broker before anything is read with it."""

from __future__ import annotations

import contextlib
import json

from rmqpull_client.connection import wrap_name
from rmqpull_client.errors import FilterRefused, Unserved
from rmqpull_client.model import MessageFilter, MessageQueue
from rmqpull_client.transports.message_filters import make_filter_error
from rmqpull_client.transports.port import log_reset
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.reading.pulls import make_pull
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand

PULLED = frozenset(
    (
        int(ResponseCode.SUCCESS),
        int(ResponseCode.PULL_NOT_FOUND),
        int(ResponseCode.PULL_RETRY_IMMEDIATELY),
        int(ResponseCode.PULL_OFFSET_MOVED),
    )
)
"""The codes of pulls that the broker does not refuse (rules 3.3)."""


def check_filter(
    channel: RemotingChannel, group: str, queue: MessageQueue, offset: int, message_filter: MessageFilter
) -> None:
    """Raises OptionError if the broker does not evaluate a filter.

    A broker answers a pull with malformed SQL, or with an unknown type, as if there were no filter (rules 6.1). So it
    must compile the expression first. Only a pull shows that it refuses some TAG expressions.
    """
    target = Target.of(queue, may_use_slave=True)
    try:
        with contextlib.suppress(Unserved):  # of a compatible server without this request
            channel.call(target, _make_check(channel, group, queue, message_filter))
        response = channel.call(target, make_pull(group, queue, offset, 1, message_filter), accepted=PULLED)
    except FilterRefused as refusal:
        raise make_filter_error(message_filter, refusal) from None
    if response.code == ResponseCode.PULL_OFFSET_MOVED and response.remark == "OFFSET_RESET":
        log_reset(group, queue, int(response.fields.get("nextBeginOffset", "-1")))


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
