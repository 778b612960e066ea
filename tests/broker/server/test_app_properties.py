"""Every property of the broker has an effect: each case observes the difference between two values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from rmqpull_broker.core.model import MessageQueue, TopicType
from rmqpull_broker.core.properties import BrokerProperties, list_declared
from rmqpull_broker.testing import RunningBroker, Topics, running_broker
from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2
from rmqpull_proto.names import HALF_TOPIC
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.rmqpull.v1 import admin_pb2, columns_pb2
from tests.harness.parking_watch import ParkingWatch
from tests.harness.remoting_member import RemotingMember
from tests.harness.rpc_client import Connect, RpcClient

TOPICS: Topics = {
    "orders": 1,
    "later": (1, TopicType.DELAY),
    "payments": (1, TopicType.TRANSACTION),
    "urgent": (2, TopicType.PRIORITY),
}
ORDERS = v2.MessageQueue(topic=v2.Resource(name="orders"))
SEGMENT_BYTES = 64 << 10
LARGE_BODY = bytes(40_000)
"""A body of this size fills more than half of a segment of SEGMENT_BYTES."""
NEVER_MS = (1 << 31) - 1
SUBSCRIPTION = 4
"""The bit of a pull that has its own subscription."""


@dataclass
class Setup:
    """A broker with a manual clock and a data directory, and a client."""

    broker: RunningBroker
    client: RpcClient
    parking_watch: ParkingWatch
    data_dir: Path
    syncs: list[int]

    def send(self, topic: str = "orders", body: bytes = b"x", delay_s: int = 0) -> service_pb2.SendMessageResponse:
        message = v2.Message(topic=v2.Resource(name=topic), body=body)
        message.system_properties.message_id = "ID"
        if delay_s:
            due_ms = self.broker.clock.now_ms() + delay_s * 1_000
            message.system_properties.delivery_timestamp.FromMilliseconds(due_ms)
        if topic == "payments":
            message.system_properties.message_type = v2.MessageType.TRANSACTION
        answer: service_pb2.SendMessageResponse = self.client.call(
            "SendMessage", service_pb2.SendMessageRequest(messages=[message])
        )
        return answer

    def topic(self, name: str) -> admin_pb2.Topic:
        topics = self.client.call("ListTopics", admin_pb2.ListTopicsRequest(with_system_topics=True)).topics
        (found,) = [entry.topic for entry in topics if entry.topic.name == name]
        assert isinstance(found, admin_pb2.Topic)
        return found

    def fill_segments(self) -> None:
        for _ in range(4):
            self.send(body=LARGE_BODY)


Probe = Callable[[Setup], object]


def send_code(**message: Any) -> Probe:
    return lambda setup: v2.Code.Name(setup.send(**message).status.code)


def pull_code(**options: Any) -> Probe:
    return lambda setup: setup.client.pull(ORDERS, 0, **options).code


def matches(sql: str) -> Probe:
    def look(setup: Setup) -> int:
        setup.send()
        return len(setup.client.pull(ORDERS, 0, sql=sql).messages)

    return look


def created_queues(setup: Setup) -> int | str:
    batch = pa.RecordBatch.from_pydict({"body": [b"x"]})
    arrow_ipc = columns.write_stream(batch.schema, [batch])
    request = columns_pb2.PublishColumnsRequest(topic="new", default_topic="TBW102", arrow_ipc=arrow_ipc)
    code = setup.client.code("PublishColumns", request)
    return setup.topic("new").write_queue_nums if code == "OK" else code


def created_mixed_topic(setup: Setup) -> str:
    return setup.client.code("PutTopic", admin_pb2.PutTopicRequest(name="mixed", message_type="MIXED"))


def loses_messages_within(hours: int) -> Probe:
    def look(setup: Setup) -> bool:
        setup.fill_segments()
        setup.broker.clock.advance(hours=hours)
        setup.client.call("ExpireNow", admin_pb2.ExpireNowRequest())
        (bounds,) = setup.broker.bounds("orders").values()
        return bounds.min_offset > 0

    return look


def has_several_segments(setup: Setup) -> bool:
    setup.fill_segments()
    return len(list(setup.data_dir.rglob("*.log"))) > 1


def synced_before_the_answer(setup: Setup) -> bool:
    before = len(setup.syncs)
    setup.send()
    return len(setup.syncs) > before


def synced_without_another_write(setup: Setup) -> bool:
    """Without a sync no call waits; with a slow one every call waits for it."""
    interval_ms = setup.broker.look(lambda state: state.properties.flush_interval_commit_log)
    before = len(setup.syncs)
    setup.send()
    for _ in range(10_000 if interval_ms < NEVER_MS else 1):
        setup.client.call("GetClock", admin_pb2.GetClockRequest())
        if len(setup.syncs) > before:
            return True
    return False


def answered_within_2_s(setup: Setup) -> bool:
    pull = setup.client.start_pull(ORDERS, 0, wait_ms=50_000)
    setup.parking_watch.await_parked()
    setup.broker.clock.advance(seconds=2)
    is_answered = not setup.parking_watch.left.empty()
    pull.cancel()
    return is_answered


def recalled(setup: Setup) -> str:
    (entry,) = setup.send("later", delay_s=60).entries
    topic = v2.Resource(name="later")
    request = service_pb2.RecallMessageRequest(topic=topic, recall_handle=entry.recall_handle)
    return setup.client.code("RecallMessage", request)


def delay_levels(setup: Setup) -> int:
    return setup.topic("SCHEDULE_TOPIC_XXXX").read_queue_nums


def checks_after(seconds: int) -> Probe:
    """How often a half message was stored again, once for each check."""

    def look(setup: Setup) -> int:
        setup.send("payments")
        setup.broker.clock.advance(seconds=seconds)
        half_queue = MessageQueue(HALF_TOPIC, "broker-a", 0)
        return setup.broker.look(lambda state: state.bounds(half_queue).max_offset) - 1

    return look


def told_of_a_reset(setup: Setup) -> str:
    setup.send()
    setup.client.pull(ORDERS, 0)
    setup.client.call("ResetOffsets", admin_pb2.ResetOffsetsRequest(group="readers", topic="orders", place="LATEST"))
    return setup.client.pull(ORDERS, 0).status_message


def told_of_a_member(setup: Setup) -> int:
    (address,) = setup.broker.remoting_addresses
    with RemotingMember(address, "ann") as ann, RemotingMember(address, "bob") as bob:
        ann.beat("readers")
        bob.beat("readers")
        return len(ann.list_notices())


def lite_pull_code(setup: Setup) -> int:
    fields = {
        "consumerGroup": "readers",
        "topic": "orders",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": SUBSCRIPTION,
    }
    with RemotingMember(setup.broker.remoting_addresses[0]) as member:
        return member.call(RequestCode.LITE_PULL_MESSAGE, fields).code


def first_queue_by_priority(setup: Setup) -> str:
    for priority in range(2):
        message = v2.Message(topic=v2.Resource(name="urgent"), body=b"x")
        message.system_properties.message_id = "ID"
        message.system_properties.priority = priority
        setup.client.call("SendMessage", service_pb2.SendMessageRequest(messages=[message]))
    fields = {
        "consumerGroup": "readers",
        "topic": "urgent",
        "queueId": -1,
        "maxMsgNums": 1,
        "invisibleTime": 60_000,
        "pollTime": 0,
        "bornTime": 0,
        "initMode": 0,
    }
    with RemotingMember(setup.broker.remoting_addresses[0]) as member:
        return member.call(RequestCode.POP_MESSAGE, fields).fields["msgOffsetInfo"]


class Case(NamedTuple):
    """The observations with two values of a property; the fields of ``beside`` are set in both cases."""

    probe: Probe
    observed: dict[Any, Any]
    beside: Mapping[str, Any] = MappingProxyType({})


SMALL_SEGMENTS = {"mapped_file_size_commit_log": SEGMENT_BYTES}
ASYNC = {"flush_disk_type": "ASYNC_FLUSH"}

CASES = {
    "autoCreateSubscriptionGroup": Case(pull_code(), {True: "MESSAGE_NOT_FOUND", False: "CONSUMER_GROUP_NOT_FOUND"}),
    "autoCreateTopicEnable": Case(created_queues, {True: 4, False: "TOPIC_NOT_FOUND"}),
    "brokerClusterName": Case(matches("CLUSTER = 'other'"), {"DefaultCluster": 0, "other": 1}),
    "brokerPermission": Case(send_code(), {6: "OK", 4: "FORBIDDEN"}),
    "defaultTopicQueueNums": Case(created_queues, {8: 4, 2: 2}),
    "enableMixedMessageType": Case(created_mixed_topic, {False: "BAD_REQUEST", True: "OK"}),
    "enablePropertyFilter": Case(pull_code(sql="a = 1"), {True: "MESSAGE_NOT_FOUND", False: "INTERNAL_SERVER_ERROR"}),
    "fileReservedTime": Case(loses_messages_within(hours=2), {72: False, 1: True}, SMALL_SEGMENTS),
    "flushDiskType": Case(
        synced_before_the_answer, {"SYNC_FLUSH": True, "ASYNC_FLUSH": False}, {"flush_interval_commit_log": NEVER_MS}
    ),
    "flushIntervalCommitLog": Case(synced_without_another_write, {1: True, NEVER_MS: False}, ASYNC),
    "litePullMessageEnable": Case(lite_pull_code, {True: 19, False: 16}),
    "longPollingEnable": Case(answered_within_2_s, {True: False, False: True}),
    "mappedFileSizeCommitLog": Case(has_several_segments, {1 << 30: False, SEGMENT_BYTES: True}),
    "maxMessageSize": Case(send_code(body=b"xyz"), {4_194_304: "OK", 2: "INTERNAL_SERVER_ERROR"}),
    "messageDelayLevel": Case(delay_levels, {BrokerProperties().message_delay_level: 18, "1s 5s": 2}),
    "notifyConsumerIdsChangedEnable": Case(told_of_a_member, {True: 2, False: 0}),
    "priorityOrderAsc": Case(first_queue_by_priority, {True: "0 1 0", False: "0 0 0"}),
    "recallMessageEnable": Case(recalled, {True: "OK", False: "INTERNAL_SERVER_ERROR"}),
    "regionId": Case(matches("MSG_REGION = 'other'"), {"DefaultRegion": 0, "other": 1}),
    "rejectPullConsumerEnable": Case(pull_code(), {False: "MESSAGE_NOT_FOUND", True: "INTERNAL_SERVER_ERROR"}),
    "rejectTransactionMessage": Case(send_code(topic="payments"), {False: "OK", True: "INTERNAL_SERVER_ERROR"}),
    "retentionBytes": Case(loses_messages_within(hours=0), {0: False, 100_000: True}, SMALL_SEGMENTS),
    "shortPollingTimeMills": Case(answered_within_2_s, {1_000: True, 40_000: False}, {"long_polling_enable": False}),
    "startAcceptSendRequestTimeStamp": Case(send_code(), {0: "OK", 1 << 42: "INTERNAL_SERVER_ERROR"}),
    "timerMaxDelaySec": Case(send_code(topic="later", delay_s=60), {259_200: "OK", 30: "INTERNAL_SERVER_ERROR"}),
    "timerWheelEnable": Case(send_code(topic="later", delay_s=60), {True: "OK", False: "INTERNAL_SERVER_ERROR"}),
    "traceOn": Case(matches("TRACE_ON = 'false'"), {True: 0, False: 1}),
    "transactionCheckInterval": Case(checks_after(seconds=95), {30_000: 3, 10_000: 9}),
    "transactionCheckMax": Case(checks_after(seconds=95), {15: 3, 1: 1}),
    "transactionTimeOut": Case(checks_after(seconds=95), {6_000: 3, 80_000: 1}),
    "useServerSideResetOffset": Case(told_of_a_reset, {True: "OFFSET_RESET", False: "FOUND"}),
}


def test_every_property_that_can_be_set_has_its_case() -> None:
    assert sorted(CASES) == sorted(entry.name for entry in list_declared())


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, case in CASES.items() for value in case.observed])
def test_a_property_changes_what_the_broker_does(
    name: str,
    value: Any,
    connect: Connect,
    parking_watch: ParkingWatch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, (declared,) = CASES[name], [entry for entry in list_declared() if entry.name == name]
    syncs: list[int] = []
    sync = os.fdatasync

    def sync_and_tell(descriptor: int) -> None:
        sync(descriptor)
        syncs.append(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync_and_tell)
    properties = BrokerProperties(**{**case.beside, declared.field: value})
    with running_broker(TOPICS, data_dir=str(tmp_path), clock="manual", properties=properties, remoting=True) as broker:
        setup = Setup(broker, connect(broker.endpoints), parking_watch, tmp_path, syncs)
        assert case.probe(setup) == case.observed[value]


@pytest.mark.parametrize("name", CASES)
def test_a_case_sees_the_difference_between_its_values(name: str) -> None:
    values = list(CASES[name].observed.values())
    assert len(values) == 2
    assert values[0] != values[1]
