"""Finds topic, queue and group in a request of the remoting protocol, for fault rules and for the log."""

from __future__ import annotations

from collections.abc import Iterator

from rmqpull_broker.core.admin.fault_rules import Target
from rmqpull_broker.server.remoting.calls import RemotingCall
from rmqpull_proto.remoting.codes import RequestCode

_SHORT_NAMES = frozenset(
    {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2}
)
"""Requests whose topic is the field ``b`` and whose queue is the field ``e`` (rules 4.6)."""
_QUEUE_ID_CHARACTERS_MAX = 10
_GROUP_FIELDS = ("consumerGroup", "group")


def find_group(call: RemotingCall) -> str:
    """Finds the consumer group that a request names; an empty text if it names none."""
    fields = call.command.fields
    return next((fields[name] for name in _GROUP_FIELDS if name in fields), "")


def find_targets(call: RemotingCall) -> Iterator[Target]:
    """Finds what the fields of a request name. Topics in bodies, as those of heartbeats, are not found."""
    fields = call.command.fields
    topic, queue = ("b", "e") if call.command.code in _SHORT_NAMES else ("topic", "queueId")
    if topic in fields:
        text = fields.get(queue, "")
        queue_id = int(text) if text.isdecimal() and len(text) <= _QUEUE_ID_CHARACTERS_MAX else None
        yield Target(fields[topic], call.site.broker_name, queue_id)
