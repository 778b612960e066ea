"""Random requests about offsets and single messages."""

from __future__ import annotations

from random import Random

from rmqpull_proto.remoting.codes import RequestCode
from tests.differential.names import choose_group, choose_queue, choose_topic, write_flag
from tests.differential.steps import Step


def query_offset(random: Random) -> Step:
    """A group's consumer offset."""
    fields = {"consumerGroup": choose_group(random), "topic": choose_topic(random), "queueId": choose_queue(random)}
    if random.random() < 0.5:
        fields["setZeroIfNotFound"] = write_flag(random.random() < 0.5)
    return Step("query an offset", RequestCode.QUERY_CONSUMER_OFFSET, fields)


def update_offset(random: Random) -> Step:
    """A commit."""
    fields = {
        "consumerGroup": choose_group(random),
        "topic": choose_topic(random),
        "queueId": choose_queue(random),
        "commitOffset": random.choice(("0", "1", "2", "3", "100", "-1", "9223372036854775807")),
    }
    return Step("update an offset", RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def find_bound(random: Random) -> Step:
    """The end or the beginning of a queue."""
    code = random.choice((RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET))
    fields = {"topic": choose_topic(random), "queueId": choose_queue(random)}
    if code == RequestCode.GET_MAX_OFFSET and random.random() < 0.3:
        fields["committed"] = write_flag(random.random() < 0.5)
    return Step("find a bound", code, fields)


def find_first_time(random: Random) -> Step:
    """The store time of the first message of a queue."""
    fields = {"topic": choose_topic(random), "queueId": choose_queue(random)}
    return Step("find the first time", RequestCode.GET_EARLIEST_MSG_STORETIME, fields)


def search_by_time(random: Random) -> Step:
    """The offset at a time."""
    times = ("0", "-1", "⟨now 0⟩", "⟨now 600000⟩", "⟨stored 0⟩", "⟨stored 1⟩", "⟨stored 2⟩", "⟨stored 5⟩")
    fields = {"topic": choose_topic(random), "queueId": choose_queue(random), "timestamp": random.choice(times)}
    if random.random() < 0.6:
        fields["boundaryType"] = random.choice(("LOWER", "UPPER", "upper", "x", ""))
    return Step("search by time", RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)


def reset_offset(random: Random) -> Step:
    """A reset, as administrators do it."""
    fields = {
        "topic": choose_topic(random),
        "group": choose_group(random),
        "timestamp": random.choice(("0", "-1", "-1", "⟨now 600000⟩", "⟨stored 0⟩")),
        "isForce": write_flag(random.random() < 0.7),
    }
    if random.random() < 0.6:
        fields["queueId"] = random.choice(("-1", "0", "1", "7"))
    if random.random() < 0.6:
        fields["offset"] = random.choice(("-1", "0", "1", "2", "3", "1000"))
    return Step("reset offsets", RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)


def view_message(random: Random) -> Step:
    """A message by its physical offset."""
    fields = {"offset": random.choice(("⟨physical 0⟩", "⟨physical 1⟩", "⟨physical 3⟩", "-1", "99999999999"))}
    return Step("view a message", RequestCode.VIEW_MESSAGE_BY_ID, fields)


KINDS = {
    query_offset: 8,
    update_offset: 8,
    find_bound: 5,
    find_first_time: 2,
    search_by_time: 6,
    reset_offset: 4,
}
