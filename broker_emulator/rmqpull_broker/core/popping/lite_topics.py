"""Refuses requests about lite topics, which this broker does not have, as Apache's broker 5.5.0 does (rules 6.4).

A lite topic belongs to a parent, a topic of the type LITE, and is consumed by a group that is bound to that parent.
Here no topic has this type, and no group is bound.
"""

from __future__ import annotations

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.errors import (
    FAQ,
    BadRequest,
    BrokerError,
    ConsumerGroupNotFound,
    Forbidden,
    PollingTimeout,
    TopicNotFound,
)
from rmqpull_broker.core.model import PERM_READ
from rmqpull_broker.core.popping.checks import LATE_MS
from rmqpull_broker.core.popping.request import MESSAGES_MAX
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft


def refuse_parent(state: BrokerState, name: str) -> BrokerError:
    """Returns the refusal of a request about a parent topic: it is missing, or it is not of type LITE."""
    if state.find_topic(name) is None:
        return TopicNotFound(f"Topic [{name}] not exist.")
    return BadRequest(f"Topic [{name}] type not match.")


def refuse_group(draft: Draft, name: str) -> BrokerError:
    """Returns the refusal of a request about a group that consumes lite topics.

    Like Apache's broker, creates a missing group if that is allowed: adds GroupPut to the draft.
    """
    if find_or_create_group(draft, name) is None:
        return ConsumerGroupNotFound(f"Group [{name}] not exist.")
    return BadRequest(f"Group [{name}] is not a LITE group.")


def refuse_pop(state: BrokerState, topic_name: str, broker_ip: str, late_ms: int, max_msg_num: int) -> BrokerError:
    """Returns the refusal of a pop of lite topics, by the first row of Apache's checks that fails.

    ``late_ms`` is the time since the pop's polling time ended, in milliseconds.
    """
    if late_ms > LATE_MS:
        return PollingTimeout(f"the broker[{broker_ip}] pop message is timeout too much")
    if not state.properties.broker_permission & PERM_READ:
        return Forbidden(f"the broker[{broker_ip}] pop message is forbidden")
    if max_msg_num > MESSAGES_MAX:
        return BadRequest(f"the broker[{broker_ip}] pop message's num is greater than {MESSAGES_MAX}")
    topic = state.find_topic(topic_name)
    if topic is None:
        return TopicNotFound(f"topic [{topic_name}] not exist, apply first please! {FAQ}")
    if not topic.is_readable:
        return Forbidden(f"the topic [{topic_name}] peeking message is forbidden")
    return BadRequest(f"the topic [{topic_name}] message type not match")
