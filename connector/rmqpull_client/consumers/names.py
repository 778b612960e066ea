"""Names of groups, topics and members, and the checks of Apache's clients, with their words (rules 1.2.1)."""

from __future__ import annotations

import os
import re
import time

from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.remoting.network.own_host import find_own_host

GROUP_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX = 120, 127
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_DEFAULT_GROUP = "DEFAULT_CONSUMER"


def check_group(group: str) -> None:
    """Raises OptionError for a name that no consumer group may have."""
    if not group.strip():
        raise OptionError("the specified group is blank")
    if len(group) > GROUP_CHARACTERS_MAX:
        raise OptionError("the specified group is longer than group max length 120.")
    if not _NAME.fullmatch(group):
        raise OptionError(f"the specified group[{group}] contains illegal characters, allowing only {_NAME.pattern}")
    if group == _DEFAULT_GROUP:
        raise OptionError(f"consumerGroup can not equal {_DEFAULT_GROUP}, please specify another one.")


def check_topic(topic: str) -> None:
    """Raises OptionError for a name that no topic may have."""
    if not topic.strip():
        raise OptionError("The specified topic is blank")
    if len(topic) > TOPIC_CHARACTERS_MAX:
        raise OptionError(f"The specified topic is longer than topic max length {TOPIC_CHARACTERS_MAX}.")
    if not _NAME.fullmatch(topic):
        raise OptionError(f"The specified topic[{topic}] contains illegal characters, allowing only {_NAME.pattern}")


def make_member_id(connection: Connection) -> str:
    """Returns a client id as Java's consumers make it: address, process id and time. No two members have the same."""
    return f"{find_own_host(connection.name_servers)}@{os.getpid()}#{time.monotonic_ns()}"
