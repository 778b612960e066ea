"""Topics: their settings, and how many messages their queues hold (rules 3.9, 4.6).

A topic has the same queues on each logical broker. So a request to one broker changes the topic on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import sub
from typing import Any

from rmqpull_broker.core.admin import topics
from rmqpull_broker.core.admin.topic_attributes import find_topic_type, list_attributes, parse_changes
from rmqpull_broker.core.errors import BadRequest, IllegalTopic, InternalError, TopicNotFound
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.messages.remoting_records import encode_records
from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.bounds import find_store_time_ms
from rmqpull_broker.core.sending.queue_selection import hash_like_java
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import list_reserved_topics
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.handlers.admin_codec import find_refusal, require_topic
from rmqpull_broker.server.remoting.handlers.page_codec import cut_page
from rmqpull_broker.server.remoting.long_answers import Answer, answer
from rmqpull_broker.server.remoting.wire.admin_bodies import (
    DATA_VERSION,
    TopicSettings,
    read_settings,
    write_queue_entry,
    write_settings_table,
)
from rmqpull_broker.server.remoting.wire.admin_headers import QueryConsumeQueueRequestHeader
from rmqpull_broker.server.remoting.wire.json_parts import write_table
from rmqpull_broker.server.remoting.wire.page_headers import (
    GetAllTopicConfigRequestHeader,
    GetAllTopicConfigResponseHeader,
)
from rmqpull_broker.server.runtime.stats import TOPIC_PUT_NUMS
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.headers import CreateTopicRequestHeader, TopicRequestHeader
from rmqpull_proto.remoting.json_dialect import write_json
from rmqpull_proto.remoting.routes import TopicList

_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
ENTRIES_MAX = 1_000
"""The most entries of a queue in one response."""


async def put_topic(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """UPDATE_AND_CREATE_TOPIC."""
    header = call.read_header(CreateTopicRequestHeader)
    if header.topic_filter_type not in _FILTER_TYPES:
        raise WireError(f"topicFilterType is {header.topic_filter_type[:40]!r}, expected one of {_FILTER_TYPES}")
    topics.check_changed_name(service.state, header.topic)
    settings = TopicSettings(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        order=header.order,
        topic_sys_flag=header.topic_sys_flag or 0,
        attributes=parse_changes(header.attributes or ""),
    )
    await _put_all(service, call, [settings])
    return call.respond(remark="not set any response code")  # Apache's initial remark, which stays here (rules 6.1)


async def put_topics(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """UPDATE_AND_CREATE_TOPIC_LIST: all of them, or none."""
    await _put_all(service, call, read_settings(call.command.body, TopicSettings, "topicConfigList"))
    return call.respond()


async def _put_all(service: RemotingService, call: RemotingCall, listed: Sequence[TopicSettings]) -> None:
    creation_ids = [service.make_creation_id() for _ in listed]

    def put(draft: Draft) -> None:
        for settings, creation_id in zip(listed, creation_ids, strict=True):
            refusal = find_refusal(service, call, f"topic {settings.topic_name}")
            topics.put_topic(draft, _make_topic(draft, settings, creation_id), refusal, queues_min=0)

    await service.group_commit.execute(put)


def _make_topic(draft: Draft, settings: TopicSettings, creation_id: str) -> TopicConfig:
    if settings.topic_sys_flag:
        raise BadRequest(
            f"topic {settings.topic_name} has topicSysFlag {settings.topic_sys_flag}: units are not served"
        )
    existing = draft.find_topic(settings.topic_name)
    return TopicConfig(
        settings.topic_name,
        settings.read_queue_nums,
        settings.write_queue_nums,
        find_topic_type(settings.attributes, existing),
        creation_id,
        settings.perm,
        settings.order,
    )


async def delete_topic(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """DELETE_TOPIC_IN_BROKER. A missing topic counts as deleted already, because the request goes to each broker."""
    name = call.read_header(TopicRequestHeader).topic
    if not name.strip():
        raise IllegalTopic("The specified topic is blank.")
    try:
        await service.group_commit.execute(partial(topics.delete_topic, name=name))
    except TopicNotFound:
        return call.respond()
    return call.respond()


def list_topic_settings(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_ALL_TOPIC_CONFIG: the settings of all topics, including system topics, or of a page of them."""
    header = call.read_header(GetAllTopicConfigRequestHeader)
    state = service.state
    listed = {**state.system_topics, **state.topics}
    others: dict[str, Any] = {"mappingDataVersion": DATA_VERSION, "topicQueueMappingDetailMap": {}}
    total = GetAllTopicConfigResponseHeader(total_topic_num=len(listed))
    page = cut_page(listed, header.topic_seq, header.data_version, header.max_topic_num)
    if page is not None:
        listed, others["dataVersion"] = {name: listed[name] for name in page.names}, page.version
    settings = ((topic.name, describe_topic(topic)) for topic in listed.values())
    return answer(service, call, write_settings_table("topicConfigTable", settings, **others), total)


def get_topic_settings(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_TOPIC_CONFIG."""
    name = call.read_header(TopicRequestHeader).topic
    topic = service.state.find_topic(name)
    if topic is None:
        raise TopicNotFound(f"No topic in this broker. topic: {name}")
    return call.respond(body=write_json(describe_topic(topic).to_json()))


def describe_topic(topic: TopicConfig) -> TopicSettings:
    """Returns the settings of a topic."""
    return TopicSettings(
        topic_name=topic.name,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm,
        order=topic.order,
        attributes=list_attributes(topic),
    )


def list_system_topics(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
    names = {*service.state.system_topics, *list_reserved_topics()}
    return call.respond(body=TopicList(tuple(sorted(names))).encode())


def get_topic_stats(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_TOPIC_STATS_INFO: the bounds of each queue of this broker, and when it got its last message."""
    topic = require_topic(service.state, call.read_header(TopicRequestHeader).topic)
    state = service.state

    def describe_queues() -> Iterator[tuple[bytes]]:
        for queue_id in range(max(topic.read_queue_nums, topic.write_queue_nums)):
            queue = MessageQueue(topic.name, call.site.broker_name, queue_id)
            bounds = state.bounds(queue)
            told = {
                "lastUpdateTimestamp": find_store_time_ms(state, queue, bounds.max_offset - 1) or 0,
                "maxOffset": bounds.max_offset,
                "minOffset": bounds.min_offset,
            }
            yield write_queue_entry(queue, told)

    tps = service.stats.count_per_second(call.site.broker_name, TOPIC_PUT_NUMS, topic.name, service.steady_ms())
    return answer(service, call, write_table("offsetTable", describe_queues(), {"topicPutTps": tps}))


def list_queue_entries(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_CONSUME_QUEUE: where the messages of a queue are, and the hashes of their tags."""
    header, state = call.read_header(QueryConsumeQueueRequestHeader), service.state
    topic = state.find_topic(header.topic)
    if topic is None or not 0 <= header.queue_id < max(topic.read_queue_nums, topic.write_queue_nums):
        raise InternalError(f"{header.queue_id}@{header.topic} is not exist!")
    queue = MessageQueue(header.topic, call.site.broker_name, header.queue_id)
    bounds = state.bounds(queue)
    told: dict[str, Any] = {"maxQueueIndex": bounds.max_offset, "minQueueIndex": bounds.min_offset}
    count = min(header.count, ENTRIES_MAX)
    if bounds.min_offset <= header.index < bounds.max_offset:
        told["queueData"] = _list_entries(state, queue, header.index, min(header.index + count, bounds.max_offset))
    return call.respond(body=write_json(told))


def _list_entries(state: BrokerState, queue: MessageQueue, begin: int, end: int) -> list[dict[str, Any]]:
    base, common = state.physical_offsets.find(queue, 0), make_common_properties(state.properties)
    entries = []
    for rows in state.store.read(queue, begin, end):
        ends = encode_records(rows, queue.topic, queue.queue_id, base, common).ends
        offsets, tags = rows.column("queueOffset").to_pylist(), rows.column("tags").to_pylist()
        entries += [
            {"eval": False, "physicOffset": base + offset, "physicSize": size, "tagsCode": hash_like_java(tag or "")}
            for offset, size, tag in zip(offsets, map(sub, ends[1:], ends), tags, strict=True)
        ]
    return entries


HANDLERS: Mapping[int, Handler] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: put_topic,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: put_topics,
    RequestCode.DELETE_TOPIC_IN_BROKER: delete_topic,
    RequestCode.GET_ALL_TOPIC_CONFIG: list_topic_settings,
    RequestCode.GET_TOPIC_CONFIG: get_topic_settings,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: list_system_topics,
    RequestCode.GET_TOPIC_STATS_INFO: get_topic_stats,
    RequestCode.QUERY_CONSUME_QUEUE: list_queue_entries,
}
