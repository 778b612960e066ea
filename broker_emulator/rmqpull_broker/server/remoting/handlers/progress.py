"""The progress of consumer groups: their offsets, and who consumes what (rules 3.5, 4.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.bounds import find_store_time_ms
from rmqpull_broker.core.pulling.consumer_offsets import (
    list_groups_on,
    list_topics_of,
    read_queue_progress,
)
from rmqpull_broker.core.state.names import name_pop_retry_topic
from rmqpull_broker.core.steps import sort_in_steps, walk
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.handlers.admin_codec import describe_subscription, require_topic
from rmqpull_broker.server.remoting.long_answers import Answer, answer
from rmqpull_broker.server.remoting.wire.admin_bodies import DATA_VERSION, write_queue_entry
from rmqpull_broker.server.remoting.wire.admin_headers import (
    GetConsumeStatsInBrokerRequestHeader,
    GetConsumeStatsRequestHeader,
    GroupAndTopicRequestHeader,
)
from rmqpull_broker.server.remoting.wire.json_parts import (
    Entries,
    Parts,
    join_entries,
    write_entry,
    write_list,
    write_table,
)
from rmqpull_broker.server.runtime.stats import GROUP_GET_NUMS
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import GetSubscriptionGroupConfigRequestHeader, TopicRequestHeader
from rmqpull_proto.remoting.json_dialect import write_json
from rmqpull_proto.remoting.routes import TopicList


def get_consume_stats(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_CONSUME_STATS: the progress of a group on the topics that it consumes, or on those of the request."""
    header = call.read_header(GetConsumeStatsRequestHeader)
    named = [name for name in (header.topic_list or "").split(";") if name.strip()]
    return answer(service, call, _write_consume_stats(service, call, header.consumer_group, named, header.topic or ""))


def _write_consume_stats(
    service: RemotingService, call: RemotingCall, group: str, named: Sequence[str], topic_name: str
) -> Parts:
    names: Iterable[str] = named
    if not named:
        of_group = [topic_name] if topic_name.strip() else (yield from list_topics_of(service.state, group))
        names = filter(_make_choice(service, group), of_group)
    others = {"consumeTps": 0.0}

    def describe_topics() -> Entries:
        for topic in map(service.state.find_topic, names):
            yield (None,)
            if topic is not None:
                others["consumeTps"] += _count_per_second(service, call, group, topic.name)
                for told in _describe_progress(service, group, _list_queues(call, topic.name, topic.read_queue_nums)):
                    yield write_queue_entry(*told)

    yield from write_table("offsetTable", describe_topics(), others)


def _make_choice(service: RemotingService, group: str) -> Callable[[str], bool]:
    """Returns a function that tells whether a group consumes a topic on which it has an offset.

    A group with subscriptions consumes only these topics and their pop retry topics.
    """
    consumers = service.clients.consumers
    info = consumers.find_consumer_group(group)
    if info is None or not info.subscriptions:
        return lambda name: True
    prefix = name_pop_retry_topic(group, "")
    return lambda name: any(
        consumers.find_subscription(group, each) is not None for each in (name, name.removeprefix(prefix))
    )


def _list_queues(call: RemotingCall, topic: str, count: int) -> list[MessageQueue]:
    return [MessageQueue(topic, call.site.broker_name, queue_id) for queue_id in range(count)]


def _count_per_second(service: RemotingService, call: RemotingCall, group: str, topic: str) -> float:
    now_ms = service.steady_ms()
    return service.stats.count_per_second(call.site.broker_name, GROUP_GET_NUMS, f"{topic}@{group}", now_ms)


def _describe_progress(
    service: RemotingService, group: str, queues: Iterable[MessageQueue], *, has_pull_offsets: bool = True
) -> Iterator[tuple[MessageQueue, Mapping[str, int]]]:
    for queue in queues:
        progress = read_queue_progress(service.state, group, queue)
        offset = progress.consumer_offset or 0
        told = {
            "brokerOffset": progress.bounds.max_offset,
            "consumerOffset": offset,
            "lastTimestamp": find_store_time_ms(service.state, queue, offset - 1) or 0,
            "pullOffset": offset if has_pull_offsets else 0,
        }
        yield queue, told


def list_consume_stats(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_BROKER_CONSUME_STATS: the progress of all groups on this broker, without pull offsets."""
    is_order = call.read_header(GetConsumeStatsInBrokerRequestHeader).is_order
    return answer(service, call, _write_consume_stats_list(service, call, is_order))


def _write_consume_stats_list(service: RemotingService, call: RemotingCall, is_order: bool) -> Parts:
    state = service.state
    others: dict[str, Any] = {"brokerAddr": call.site.address, "totalDiff": 0, "totalInflightDiff": 0}

    def write_group(group: str) -> Parts:
        of_group = yield from list_topics_of(state, group)
        names = filter(_make_choice(service, group), of_group)
        yield from join_entries(b"{" + write_json(group) + b":[", map(partial(write_topic, group), names), b"]}")

    def write_topic(group: str, name: str) -> Parts:
        topic = state.find_topic(name)
        if topic is None or (is_order and not topic.order):
            yield None
            return
        tps = _count_per_second(service, call, group, topic.name)
        yield from write_table("offsetTable", write_queues(group, topic), {"consumeTps": tps})

    def write_queues(group: str, topic: TopicConfig) -> Entries:
        queues = _list_queues(call, topic.name, topic.write_queue_nums)
        for queue, told in _describe_progress(service, group, queues, has_pull_offsets=False):
            others["totalDiff"] += told["brokerOffset"] - told["consumerOffset"]
            others["totalInflightDiff"] -= told["consumerOffset"]
            yield write_queue_entry(queue, told)

    yield from write_list("consumeStatsList", map(write_group, list(state.groups)), others)


def list_consumer_offsets(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_ALL_CONSUMER_OFFSET: the consumer offsets of all groups on this broker."""
    return answer(service, call, _write_consumer_offsets(service, call.site.broker_name))


def _write_consumer_offsets(service: RemotingService, broker_name: str) -> Parts:
    table = service.state.consumer_offsets

    def list_offsets(group: str, topic: str) -> dict[str, int]:
        entries = table.list_entries(group, topic)
        return {str(queue.queue_id): offset for queue, offset in entries if queue.broker_name == broker_name}

    def write_topics() -> Entries:
        for group in table.list_groups():
            topics = []
            for topic in table.list_topics_of(group):
                topics += [topic] * bool(list_offsets(group, topic))
                yield (None,)
            if topics:
                yield write_entry(group, sorted(topics))

    def write_offsets() -> Entries:
        for group in table.list_groups():
            for topic in table.list_topics_of(group):
                offsets = list_offsets(group, topic)
                yield write_entry(f"{topic}@{group}", offsets) if offsets else (None,)

    yield b'{"dataVersion":' + write_json(DATA_VERSION) + b","
    yield from join_entries(b'"groupTopicMap":{', write_topics(), b"}")
    yield from join_entries(b',"offsetTable":{', write_offsets(), b"}}")


def query_time_spans(service: RemotingService, call: RemotingCall) -> Answer:
    """QUERY_CONSUME_TIME_SPAN: store times of the first, the last and the consumed message of each queue."""
    header = call.read_header(GroupAndTopicRequestHeader)
    topic = require_topic(service.state, header.topic)
    queues = _list_queues(call, topic.name, topic.write_queue_nums)
    spans = ((write_json(_describe_span(service, header.group, queue)),) for queue in queues)
    return answer(service, call, write_list("consumeTimeSpanSet", spans, {}))


def _describe_span(service: RemotingService, group: str, queue: MessageQueue) -> dict[str, object]:
    """Times are -1 where there is no message, as Apache's broker has them."""
    progress = read_queue_progress(service.state, group, queue)
    bounds, offset = progress.bounds, progress.consumer_offset
    oldest = find_store_time_ms(service.state, queue, bounds.min_offset)
    consumed = find_store_time_ms(service.state, queue, offset - 1) if offset else oldest
    span: dict[str, object] = {
        "messageQueue": {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic},
        "minTimeStamp": _or_missing(oldest),
        "maxTimeStamp": _or_missing(find_store_time_ms(service.state, queue, bounds.max_offset - 1)),
        "consumeTimeStamp": _or_missing(consumed),
        "delayTime": 0,
    }
    # A group without an offset counts as having offset -1, at which there is no message.
    following = -1 if offset is None else offset
    if following < bounds.max_offset:
        span["delayTime"] = service.clock_ms() - _or_missing(find_store_time_ms(service.state, queue, following))
    return span


def _or_missing(time_ms: int | None) -> int:
    return -1 if time_ms is None else time_ms


def list_groups(service: RemotingService, call: RemotingCall) -> Answer:
    """QUERY_TOPIC_CONSUME_BY_WHO: the groups that subscribe to a topic, or have offsets on it."""
    topic = call.read_header(TopicRequestHeader).topic
    return answer(service, call, _write_groups(service, topic))


def _write_groups(service: RemotingService, topic: str) -> Parts:
    found = set((yield from list_groups_on(service.state, topic)))
    for piece in walk(service.clients.consumers.list_consumer_groups()):
        found.update(info.group for info in piece if info.subscription(topic) is not None)
        yield None
    names = yield from sort_in_steps(found)
    yield from write_list("groupList", ((write_json(name),) for name in names), {})


def list_topics(service: RemotingService, call: RemotingCall) -> Answer:
    """QUERY_TOPICS_BY_CONSUMER: the topics on which a group has offsets."""
    group = call.read_header(GetSubscriptionGroupConfigRequestHeader).group
    return answer(service, call, _write_topics(service, call, group))


def _write_topics(service: RemotingService, call: RemotingCall, group: str) -> Parts:
    topics = yield from list_topics_of(service.state, group)
    yield TopicList(tuple(topics), call.site.address).encode()


def get_subscription(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_SUBSCRIPTION_BY_CONSUMER."""
    header = call.read_header(GroupAndTopicRequestHeader)
    found = service.clients.consumers.find_subscription(header.group, header.topic)
    subscription = {} if found is None else {"subscriptionData": describe_subscription(found)}
    return call.respond(body=write_json({"group": header.group, "topic": header.topic, **subscription}))


HANDLERS: Mapping[int, Handler] = {
    RequestCode.GET_CONSUME_STATS: get_consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: list_consume_stats,
    RequestCode.GET_ALL_CONSUMER_OFFSET: list_consumer_offsets,
    RequestCode.QUERY_CONSUME_TIME_SPAN: query_time_spans,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: list_groups,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: list_topics,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: get_subscription,
}
