"""The progress of consumer groups: their offsets, and who consumes what (rules 3.5, 4.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.bounds import find_store_time_ms
from rmqpull_broker.core.pulling.consumer_offsets import (
    list_groups_on,
    list_topics_of,
    read_queue_progress,
)
from rmqpull_broker.core.state.names import name_pop_retry_topic
from rmqpull_broker.server.handlers.remoting.admin_codec import describe_subscription, require_topic
from rmqpull_broker.server.runtime.remoting_calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.runtime.stats import GROUP_GET_NUMS
from rmqpull_proto.remoting.admin_bodies import DATA_VERSION, QueueEntry, write_consume_stats_list, write_queue_table
from rmqpull_proto.remoting.admin_headers import (
    GetConsumeStatsInBrokerRequestHeader,
    GetConsumeStatsRequestHeader,
    GroupAndTopicRequestHeader,
)
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import GetSubscriptionGroupConfigRequestHeader, TopicRequestHeader
from rmqpull_proto.remoting.json_dialect import write_json
from rmqpull_proto.remoting.routes import TopicList


def get_consume_stats(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_CONSUME_STATS: the progress of a group on the topics that it consumes, or on those of the request."""
    header = call.read_header(GetConsumeStatsRequestHeader)
    group, named = header.consumer_group, [name for name in (header.topic_list or "").split(";") if name.strip()]
    names = named or _list_consumed(service, group, header.topic or "")
    topics = [topic for topic in map(service.service.state.find_topic, names) if topic is not None]
    tps = sum(_count_per_second(service, call, group, topic.name) for topic in topics)
    queues = (queue for topic in topics for queue in _list_queues(call, topic.name, topic.read_queue_nums))
    entries = _describe_progress(service, group, queues)
    return call.respond(body=write_queue_table("offsetTable", entries, {"consumeTps": tps}))


def _list_consumed(service: RemotingService, group: str, topic: str) -> list[str]:
    """Returns the topics on which a group has offsets, or the one that is asked for.

    A group that subscribes to anything has only its subscriptions, and the retries of messages of these topics that it
    received by pop.
    """
    topics = [topic] if topic.strip() else list_topics_of(service.service.state, group)
    consumers = service.service.clients.consumers
    info = consumers.find_consumer_group(group)
    if info is None or not info.subscriptions:
        return topics
    prefix = name_pop_retry_topic(group, "")
    return [
        name
        for name in topics
        if any(consumers.find_subscription(group, each) is not None for each in (name, name.removeprefix(prefix)))
    ]


def _list_queues(call: RemotingCall, topic: str, count: int) -> list[MessageQueue]:
    return [MessageQueue(topic, call.site.broker_name, queue_id) for queue_id in range(count)]


def _count_per_second(service: RemotingService, call: RemotingCall, group: str, topic: str) -> float:
    now_ms = service.service.clock_ms()
    return service.service.stats.count_per_second(call.site.broker_name, GROUP_GET_NUMS, f"{topic}@{group}", now_ms)


def _describe_progress(
    service: RemotingService, group: str, queues: Iterable[MessageQueue], *, has_pull_offsets: bool = True
) -> Iterator[QueueEntry]:
    for queue in queues:
        progress = read_queue_progress(service.service.state, group, queue)
        offset = progress.consumer_offset or 0
        told = {
            "brokerOffset": progress.bounds.max_offset,
            "consumerOffset": offset,
            "lastTimestamp": find_store_time_ms(service.service.state, queue, offset - 1) or 0,
            "pullOffset": offset if has_pull_offsets else 0,
        }
        yield *queue, told


def list_consume_stats(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_BROKER_CONSUME_STATS: the progress of all groups on this broker. It knows no pull offsets."""
    is_order = call.read_header(GetConsumeStatsInBrokerRequestHeader).is_order
    state = service.service.state
    tables: dict[str, list[bytes]] = {}
    total = consumed = 0
    for group in state.groups:
        tables[group] = []
        found = (state.find_topic(name) for name in _list_consumed(service, group, ""))
        for topic in (topic for topic in found if topic is not None and (topic.order or not is_order)):
            queues = _list_queues(call, topic.name, topic.write_queue_nums)
            entries = list(_describe_progress(service, group, queues, has_pull_offsets=False))
            total += sum(told["brokerOffset"] - told["consumerOffset"] for *_, told in entries)
            consumed += sum(told["consumerOffset"] for *_, told in entries)
            tps = _count_per_second(service, call, group, topic.name)
            tables[group].append(write_queue_table("offsetTable", entries, {"consumeTps": tps}))
    others = {"brokerAddr": call.site.address, "totalDiff": total, "totalInflightDiff": -consumed}
    return call.respond(body=write_consume_stats_list(tables, others))


def list_consumer_offsets(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_ALL_CONSUMER_OFFSET: the consumer offsets of all groups on this broker."""
    offsets: dict[str, dict[str, int]] = {}
    topics: dict[str, set[str]] = {}
    for (group, queue), offset in service.service.state.consumer_offsets.items():
        if queue.broker_name == call.site.broker_name:
            offsets.setdefault(f"{queue.topic}@{group}", {})[str(queue.queue_id)] = offset
            topics.setdefault(group, set()).add(queue.topic)
    table = {
        "dataVersion": DATA_VERSION,
        "groupTopicMap": {group: sorted(names) for group, names in topics.items()},
        "offsetTable": offsets,
    }
    return call.respond(body=write_json(table))


def query_time_spans(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_CONSUME_TIME_SPAN: store times of the first, the last and the consumed message of each queue."""
    header = call.read_header(GroupAndTopicRequestHeader)
    topic = require_topic(service.service.state, header.topic)
    queues = _list_queues(call, topic.name, topic.write_queue_nums)
    spans = [_describe_span(service, header.group, queue) for queue in queues]
    return call.respond(body=write_json({"consumeTimeSpanSet": spans}))


def _describe_span(service: RemotingService, group: str, queue: MessageQueue) -> dict[str, object]:
    """Times are -1 where there is no message, as Apache's broker has them."""
    progress = read_queue_progress(service.service.state, group, queue)
    bounds, offset = progress.bounds, progress.consumer_offset
    oldest = find_store_time_ms(service.service.state, queue, bounds.min_offset)
    consumed = find_store_time_ms(service.service.state, queue, offset - 1) if offset else oldest
    span: dict[str, object] = {
        "messageQueue": {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic},
        "minTimeStamp": _or_missing(oldest),
        "maxTimeStamp": _or_missing(find_store_time_ms(service.service.state, queue, bounds.max_offset - 1)),
        "consumeTimeStamp": _or_missing(consumed),
        "delayTime": 0,
    }
    # A group without an offset has the offset -1 here, which no message has.
    following = -1 if offset is None else offset
    if following < bounds.max_offset:
        span["delayTime"] = service.service.clock_ms() - _or_missing(
            find_store_time_ms(service.service.state, queue, following)
        )
    return span


def _or_missing(time_ms: int | None) -> int:
    return -1 if time_ms is None else time_ms


def list_groups(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_TOPIC_CONSUME_BY_WHO: the groups that subscribe to a topic, or have offsets on it."""
    topic = call.read_header(TopicRequestHeader).topic
    consumers = service.service.clients.consumers
    members = {info.group for info in consumers.list_consumer_groups() if info.subscription(topic) is not None}
    names = sorted(members | set(list_groups_on(service.service.state, topic)))
    return call.respond(body=write_json({"groupList": names}))


def list_topics(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_TOPICS_BY_CONSUMER: the topics on which a group has offsets."""
    group = call.read_header(GetSubscriptionGroupConfigRequestHeader).group
    topics = tuple(list_topics_of(service.service.state, group))
    return call.respond(body=TopicList(topics, call.site.address).encode())


def get_subscription(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_SUBSCRIPTION_BY_CONSUMER."""
    header = call.read_header(GroupAndTopicRequestHeader)
    found = service.service.clients.consumers.find_subscription(header.group, header.topic)
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
