"""Requests about lite topics, which this broker does not have, and about the timer engine (rules 6.4)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rmqpull_broker.core.errors import BadRequest, IllegalOperation
from rmqpull_broker.core.popping.lite_topics import refuse_group, refuse_parent, refuse_pop
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.wire.lite_headers import (
    LiteGroupRequestHeader,
    ParentTopicRequestHeader,
    PopLiteMessageRequestHeader,
    PopLiteMessageResponseHeader,
)
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import TopicRequestHeader
from rmqpull_proto.remoting.json_dialect import read_json, write_json

_ENGINE, _ROCKSDB, _TIME_WHEEL = "E_T", "R", "F"
_LMQ_MAX = 20_000
"""Apache's default of ``maxLmqConsumeQueueNum``."""
_NO_POP = PopLiteMessageResponseHeader(pop_time=0, invisible_time=0, revive_qid=0)


def pop_lite_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """POP_LITE_MESSAGE: no topic is a parent, so each pop is refused, as that of any other topic by Apache's broker."""
    header, now_ms = call.read_header(PopLiteMessageRequestHeader), service.clock_ms()
    is_timed = header.born_time and not service.clock_mover.is_manual
    late_ms = now_ms - header.born_time - header.poll_time if is_timed else -header.poll_time
    refusal = refuse_pop(service.state, header.topic, call.site.ip, late_ms, header.max_msg_num)
    return call.respond(_NO_POP, code=refusal.response_code, remark=str(refusal))


def change_lite_subscription(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """LITE_SUBSCRIPTION_CTL. Apache's broker accepts subscriptions to topics that are not lite, which get nothing."""
    if not call.command.body:
        raise IllegalOperation("Request body is null.")
    body = read_json(call.command.body)
    if not isinstance(body, dict) or not body.get("subscriptionSet"):
        raise IllegalOperation("LiteSubscriptionCtlRequestBody is empty.")
    raise IllegalOperation("lite topics are not emulated: nothing can be subscribed to")


def get_broker_info(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_BROKER_LITE_INFO: no lite topics, and how many topics there are."""
    state = service.state
    counts = {
        "cqTableSize": len(state.system_topics) + len(state.topics),
        "currentLmqNum": 0,
        "eventMapSize": 0,
        "groupMeta": {},
        "liteSubscriptionCount": 0,
        "maxLmqNum": _LMQ_MAX,
        "offsetTableSize": 0,
        "orderInfoCount": 0,
        "storeType": "default",
        "topicMeta": {},
    }
    return call.respond(body=write_json(counts))


def get_parent_info(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_PARENT_TOPIC_INFO."""
    raise refuse_parent(service.state, call.read_header(TopicRequestHeader).topic)


def get_topic_info(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_LITE_TOPIC_INFO and GET_LITE_CLIENT_INFO."""
    raise refuse_parent(service.state, call.read_header(ParentTopicRequestHeader).parent_topic)


async def get_group_info(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_LITE_GROUP_INFO and TRIGGER_LITE_DISPATCH."""
    group = call.read_header(LiteGroupRequestHeader).group
    raise await service.execute(partial(refuse_group, name=group))


def switch_timer_engine(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """SWITCH_TIMER_ENGINE: this broker acts like Apache's time wheel, and has no RocksDB."""
    if not service.properties.timer_wheel_enable:
        raise BadRequest("broker timerWheelEnable is false")
    if not call.command.fields:
        raise BadRequest("param error, extFields is null")
    engine = call.command.fields.get(_ENGINE)
    if engine == _ROCKSDB:
        raise BadRequest("timerRocksDBEnable must be configured true when broker start")
    if engine != _TIME_WHEEL:
        raise BadRequest("param error")
    return call.respond(remark="switch timer engine success")


HANDLERS: Mapping[int, Handler] = {
    RequestCode.POP_LITE_MESSAGE: pop_lite_message,
    RequestCode.LITE_SUBSCRIPTION_CTL: change_lite_subscription,
    RequestCode.GET_BROKER_LITE_INFO: get_broker_info,
    RequestCode.GET_PARENT_TOPIC_INFO: get_parent_info,
    RequestCode.GET_LITE_TOPIC_INFO: get_topic_info,
    RequestCode.GET_LITE_CLIENT_INFO: get_topic_info,
    RequestCode.GET_LITE_GROUP_INFO: get_group_info,
    RequestCode.TRIGGER_LITE_DISPATCH: get_group_info,
    RequestCode.SWITCH_TIMER_ENGINE: switch_timer_engine,
}
