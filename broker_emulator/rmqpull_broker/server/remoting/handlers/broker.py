"""The broker as a whole: its properties, its statistics, and cleaning (rules 3.9.5, 4.6)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.errors import BadRequest, InternalError
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.properties import change_properties, format_properties
from rmqpull_broker.core.pulling.bounds import find_store_time_ms
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.steps import Steps
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.long_answers import Answer, answer
from rmqpull_broker.server.remoting.wire.admin_bodies import DATA_VERSION, read_property_lines, write_property_lines
from rmqpull_broker.server.remoting.wire.admin_headers import ViewBrokerStatsDataRequestHeader
from rmqpull_broker.server.remoting.wire.json_parts import Parts
from rmqpull_broker.server.runtime.stats import BROKER_GET_NUMS, BROKER_PUT_NUMS, Snapshot, Stat
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.json_dialect import write_json

NEVER_CHANGED = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
"""Properties that Apache's broker also refuses to change (``configBlackList``)."""
_VERSION_NAME = "V5_5_0"
_QUEUES = ("send", "pull", "litePull", "query", "ack")
"""Apache's queues of thread pools. This broker has no such queues, so they are empty."""


def get_properties(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_BROKER_CONFIG."""
    itself = {
        "brokerId": "0",
        "brokerIP1": call.site.host,
        "brokerName": call.site.broker_name,
        "brokerRole": "ASYNC_MASTER",
        "listenPort": str(call.site.port),
        "namesrvAddr": service.sites[0].address,
    }
    body = write_property_lines({**format_properties(service.properties), **itself})
    return call.respond({"version": write_json(DATA_VERSION).decode()}, body)


def change(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """UPDATE_BROKER_CONFIG, until the broker stops. All logical brokers have the same properties.

    Apache's broker accepts any name, and ignores those that it does not have.
    """
    changes = read_property_lines(call.command.body)
    if NEVER_CHANGED & changes.keys():
        return call.respond(code=ResponseCode.NO_PERMISSION, remark="Can not update config in black list.")
    state = service.state
    try:
        state.properties = change_properties(state.properties, changes)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    return call.respond()


def get_runtime_info(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_BROKER_RUNTIME_INFO, with Apache's names."""
    return answer(service, call, _write_runtime_info(service, call))


def _write_runtime_info(service: RemotingService, call: RemotingCall) -> Parts:
    earliest_ms = yield from _find_earliest_ms(service.state, call.site.broker_name)
    now_ms = service.steady_ms()
    put = service.stats.find(call.site.broker_name, BROKER_PUT_NUMS) or Stat()
    got = service.stats.find(call.site.broker_name, BROKER_GET_NUMS) or Stat()
    table = {
        "bootTimestamp": str(service.stats.begun_ms),
        "brokerActive": "true",
        "brokerVersionDesc": _VERSION_NAME,
        "runtime": _format_runtime(now_ms - service.stats.begun_ms),
        "putTps": _format_rates(put, now_ms),
        "getTransferredTps": _format_rates(got, now_ms),
        "getFoundTps": _format_rates(got, now_ms),
        "getMissTps": "0.0 0.0 0.0",
        "getTotalTps": _format_rates(got, now_ms),
        **_describe_day("msgPutTotal", put, now_ms),
        **_describe_day("msgGetTotal", got, now_ms),
        "putMessageTimesTotal": str(put.total),
        "earliestMessageTimeStamp": str(earliest_ms),
        "startAcceptSendRequestTimeStamp": str(service.properties.start_accept_send_request_time_stamp),
        **_IDLE,
    }
    yield write_json({"table": table})


def _find_earliest_ms(state: BrokerState, broker_name: str) -> Steps[int]:
    """Returns when the oldest message of a broker was stored, ignoring system topics; -1 if there is none."""
    earliest_ms: int | None = None
    for topic in list(state.topics.values()):
        for id_ in range(topic.write_queue_nums):
            queue = MessageQueue(topic.name, broker_name, id_)
            time_ms = find_store_time_ms(state, queue, state.bounds(queue).min_offset)
            if time_ms is not None and (earliest_ms is None or time_ms < earliest_ms):
                earliest_ms = time_ms
        yield
    return -1 if earliest_ms is None else earliest_ms


def _format_runtime(passed_ms: int) -> str:
    seconds = max(0, passed_ms) // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def _format_rates(stat: Stat, now_ms: int) -> str:
    """Apache's broker reports rates of 10 s, 1 min and 10 min. Here they are those of a minute, an hour and a day."""
    return " ".join(str(period.read(now_ms).tps) for period in (stat.minute, stat.hour, stat.day))


def _describe_day(name: str, stat: Stat, now_ms: int) -> dict[str, str]:
    """Apache's broker counts from midnight. Here a day is the last 24 hours."""
    before = max(0, stat.total - stat.day.read(now_ms).sum)
    return {
        f"{name}YesterdayMorning": "0",
        f"{name}TodayMorning": str(before),
        f"{name}TodayNow": str(stat.total),
    }


_IDLE = {
    **{f"{queue}ThreadPoolQueueSize": "0" for queue in _QUEUES},
    **{f"{queue}ThreadPoolQueueCapacity": "100000" for queue in _QUEUES},
    **{f"{queue}ThreadPoolQueueHeadWaitTimeMills": "0" for queue in _QUEUES},
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "100000",
    "commitLogDiskRatio": "0.0",
    "consumeQueueDiskRatio": "0.0",
    "dispatchBehindBytes": "0",
    "pageCacheLockTimeMills": "0",
    "putMessageFailedTimes": "0",
    "remainHowManyDataToFlush": "0 B",
    "remainTransientStoreBufferNumbs": "0",
    "timerCongestNum": "0",
    "timerDequeueTps": "0.0",
    "timerEnqueueTps": "0.0",
    "timerOffsetBehind": "0",
    "timerReadBehind": "0",
}
"""The values for a broker without thread pool queues, page cache locks and dispatching."""


def get_stats(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """VIEW_BROKER_STATS_DATA: one stat by minute, hour and day."""
    header, now_ms = call.read_header(ViewBrokerStatsDataRequestHeader), service.steady_ms()
    key = "" if header.stats_key == service.properties.broker_cluster_name else header.stats_key
    stat = service.stats.find(call.site.broker_name, header.stats_name, key)
    if stat is None:
        raise InternalError(f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
    periods: Mapping[str, Snapshot] = {
        "statsDay": stat.day.read(now_ms),
        "statsHour": stat.hour.read(now_ms),
        "statsMinute": stat.minute.read(now_ms),
    }
    return call.respond(body=write_json({name: period._asdict() for name, period in periods.items()}))


def get_ha_status(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_BROKER_HA_STATUS: a master without slaves."""
    client = dict.fromkeys(
        ("lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset", "transferredByteInSecond"), 0
    )
    status = {
        "haClientRuntimeInfo": client,
        "haConnectionInfo": [],
        "inSyncSlaveNums": 0,
        "master": True,
        "masterCommitLogMaxOffset": 0,
    }
    return call.respond(body=write_json(status))


async def delete_expired(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """DELETE_EXPIRED_COMMITLOG: applies retention now."""
    await service.group_commit.expire(service.clock_ms())
    return call.respond()


def clean(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """CLEAN_EXPIRED_CONSUMEQUEUE and CLEAN_UNUSED_TOPIC: here there is never anything to clean."""
    return call.respond()


HANDLERS: Mapping[int, Handler] = {
    RequestCode.GET_BROKER_CONFIG: get_properties,
    RequestCode.UPDATE_BROKER_CONFIG: change,
    RequestCode.GET_BROKER_RUNTIME_INFO: get_runtime_info,
    RequestCode.VIEW_BROKER_STATS_DATA: get_stats,
    RequestCode.GET_BROKER_HA_STATUS: get_ha_status,
    RequestCode.DELETE_EXPIRED_COMMITLOG: delete_expired,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: clean,
    RequestCode.CLEAN_UNUSED_TOPIC: clean,
}
