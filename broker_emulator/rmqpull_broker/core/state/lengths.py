"""How long delayed and half messages wait, derived from the stored messages.

A due time depends on a clock, which may be set. The length limits how late a message can be if the clock was wrong when
it was stored. A delivery time that a producer names has no length: it means exactly that time.
"""

from __future__ import annotations

import functools
import re

from rmqpull_broker.core.model import Message, MessageQueue
from rmqpull_broker.core.properties import BrokerProperties, parse_level_delays
from rmqpull_proto.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqpull_proto.remoting import properties as names

NO_LENGTH, UNKNOWN_LENGTH = -1, -2
"""In place of a length: for a time that a producer named; for a message whose length an older release did not keep."""
TIMER_UNITS_MS = {names.TIMER_DELAY_SEC: 1_000, names.TIMER_DELAY_MS: 1}
"""The properties that delay a message by a length, in RocketMQ's order, with their units."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def find_length_ms(properties: BrokerProperties, queue: MessageQueue, message: Message) -> int:
    """Returns how long a message waits in a system queue, or until its next check; NO_LENGTH for a named time."""
    if queue.topic == HALF_TOPIC:
        return find_check_length_ms(properties, message)
    if queue.topic == SCHEDULE_TOPIC:
        delays = _parse_levels(properties.message_delay_level)
        return delays[min(queue.queue_id, len(delays) - 1)]
    own = message.system_properties
    name = next((name for name in TIMER_UNITS_MS if name in own), None)
    if name is None or not _NUMBER.fullmatch(own[name]):
        return NO_LENGTH
    return max(0, int(own[name]) * TIMER_UNITS_MS[name])


@functools.lru_cache(maxsize=8)
def _parse_levels(levels: str) -> list[int]:
    """Cached, because a replay calls it for each message."""
    return parse_level_delays(levels)


def find_check_length_ms(properties: BrokerProperties, message: Message) -> int:
    """Returns the time until the next check of a half message (rules 3.15): its immunity, then the interval."""
    if names.TRANSACTION_CHECK_TIMES in message.system_properties:
        return properties.transaction_check_interval
    seconds = message.system_properties.get(names.CHECK_IMMUNITY_TIME)
    return properties.transaction_time_out if seconds is None else parse_immunity_seconds(seconds) * 1000


def parse_immunity_seconds(text: str) -> int:
    """Parses CHECK_IMMUNITY_TIME_IN_SECONDS; returns 0 for a text that is not a number."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
