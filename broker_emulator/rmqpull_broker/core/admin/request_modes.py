"""Whether groups whose queues the broker assigns (QUERY_ASSIGNMENT) pull or pop (rules 3.17.1)."""

from __future__ import annotations

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.errors import ConsumerGroupNotFound, Forbidden, TooManyRequests, TopicNotFound
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RequestModeSet
from rmqpull_proto.names import RETRY_PREFIX

POP = "POP"
REQUEST_MODES_MAX = 100_000
"""Pairs of a group and a topic with a mode. As with Apache's broker, a mode outlives its group and its topic."""


def put_request_mode(draft: Draft, wanted: RequestModeSet) -> None:
    """Sets the mode of a group for a topic.

    Raises Forbidden for a retry topic, TopicNotFound, ConsumerGroupNotFound, and TooManyRequests above the limit.
    """
    if wanted.topic.startswith(RETRY_PREFIX):
        raise Forbidden("retry topic is not allowed to set mode")
    if draft.find_topic(wanted.topic) is None:
        raise TopicNotFound(f"topic[{wanted.topic}] not exist")
    if find_or_create_group(draft, wanted.group) is None:
        raise ConsumerGroupNotFound("subscription group does not exist")
    modes = draft.state.request_modes
    if (wanted.topic, wanted.group) not in modes and len(modes) >= REQUEST_MODES_MAX:
        raise TooManyRequests(f"{REQUEST_MODES_MAX} request modes are set already, the max")
    draft.add(wanted)


def find_request_mode(state: BrokerState, topic: str, group: str) -> RequestModeSet:
    """Returns the mode of a group for a topic: pull, if none was set."""
    return state.request_modes.get((topic, group), RequestModeSet(topic, group))
