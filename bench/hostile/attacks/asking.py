"""Queries over the remoting protocol in a loop, mostly for lists that the attack has first made long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from bench.hostile.attack import ATTACKED, QUEUES, Attack, Target
from bench.hostile.lines import flood, flood_unread, make_request, prepare, repeat_request
from rmqpull_broker.server.remoting.wire.admin_bodies import GroupSettings
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.json_dialect import write_json

GROUPS, TOPICS, OFFSETS = 3_000, 1_000, 5_000


def make_topic(name: str, queues: int = 1) -> bytes:
    """Returns a request for a new topic."""
    fields = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    return make_request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def make_group(name: str) -> bytes:
    """Returns a request for a new consumer group."""
    body = write_json(GroupSettings(group_name=name).to_json())
    return make_request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)


def make_offset(group: str, topic: str, queue_id: int, offset: int = 1) -> bytes:
    """Returns a request that sets a consumer offset."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset}
    return make_request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def _ask_after(
    target: Target, before: Iterable[bytes], code: RequestCode, fields: Mapping[str, object] | None = None
) -> Iterator[None]:
    prepare(target.remoting, before)
    return flood(target.remoting, repeat_request(code, **(fields or {})), window=2)


def _groups() -> Iterator[bytes]:
    return (make_group(f"asked-{number}") for number in range(GROUPS))


def _topics() -> Iterator[bytes]:
    return (make_topic(f"asked-{number}") for number in range(TOPICS))


def _offsets() -> Iterator[bytes]:
    return (make_offset(f"asked-{number // QUEUES}", ATTACKED, number % QUEUES, 0) for number in range(OFFSETS))


def all_groups(target: Target) -> Iterator[None]:
    """Asks for the settings of all groups."""
    return _ask_after(target, _groups(), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)


def all_topics(target: Target) -> Iterator[None]:
    """Asks for the settings of all topics."""
    return _ask_after(target, _topics(), RequestCode.GET_ALL_TOPIC_CONFIG)


def all_offsets(target: Target) -> Iterator[None]:
    """Asks for the offsets of all groups."""
    return _ask_after(target, _offsets(), RequestCode.GET_ALL_CONSUMER_OFFSET)


def all_progress(target: Target) -> Iterator[None]:
    """Asks for the progress of all groups."""
    return _ask_after(target, _offsets(), RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})


def all_names(target: Target) -> Iterator[None]:
    """Asks for the names of all topics."""
    return _ask_after(target, _topics(), RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)


def unread_lists(target: Target) -> Iterator[None]:
    """Asks for long lists and reads none of them."""
    prepare(target.remoting, _groups())
    lists = repeat_request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return flood_unread(target.remoting, lists, lines=8, window=2)


def unknown_codes(target: Target) -> Iterator[None]:
    """Sends requests with unknown codes."""
    return flood(target.remoting, (make_request(5_000 + number % 20_000) for number in count()))


def unknown_routes(target: Target) -> Iterator[None]:
    """Asks for the routes of topics that do not exist."""
    asked = RequestCode.GET_ROUTEINFO_BY_TOPIC
    return flood(target.remoting, (make_request(asked, {"topic": f"none-{number}"}) for number in count()))


def oneway(target: Target) -> Iterator[None]:
    """Sends requests whose responses it does not want."""
    frame = make_request(RequestCode.GET_BROKER_RUNTIME_INFO, is_oneway=True)
    return flood_unread(target.remoting, (frame for _ in count()))


def by_time(target: Target) -> Iterator[None]:
    """Looks offsets up by time."""
    fields = {"topic": ATTACKED, "queueId": 0, "timestamp": 1_700_000_000_000}
    return flood(target.remoting, repeat_request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, **fields))


def by_key(target: Target) -> Iterator[None]:
    """Looks messages up by a key that no message has."""
    fields = {"topic": ATTACKED, "key": "none", "maxNum": 64, "beginTimestamp": 0, "endTimestamp": 1 << 62}
    return flood(target.remoting, repeat_request(RequestCode.QUERY_MESSAGE, **fields))


_SLICES = "slices of long answers"
_ONE = "one request in turn"
ASKING = (
    Attack("all-groups", f"201 in a loop, with {GROUPS:,} groups", _SLICES, all_groups),
    Attack("all-topics", f"21 in a loop, with {TOPICS:,} topics", _SLICES, all_topics),
    Attack("all-offsets", f"43 in a loop, with {OFFSETS:,} offsets", _SLICES, all_offsets),
    Attack("all-progress", f"317 in a loop, with {OFFSETS:,} offsets", _SLICES, all_progress),
    Attack("all-names", f"206 in a loop, with {TOPICS:,} topics", _SLICES, all_names),
    Attack("unread-lists", "201 in a loop; no response is read", "bytes that a client has not read", unread_lists),
    Attack("unknown-codes", "requests with unknown codes", _ONE, unknown_codes),
    Attack("unknown-routes", "routes of topics that do not exist", _ONE, unknown_routes),
    Attack("oneway", "requests that want no response", "requests that wait", oneway),
    Attack("by-time", "look-ups of offsets by time", _ONE, by_time),
    Attack("by-key", "look-ups of messages by key", "messages that a look-up examines", by_key),
)
