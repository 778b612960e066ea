"""A handler answers any request, or refuses it with a BrokerError, but never fails with another error.

Requests are made from sound ones of which some fields are changed to something wild.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.messages import columns as stored_columns
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.half_messages import check_transactions
from rmqpull_broker.server.grpc.targets import find_targets
from rmqpull_broker.server.grpc.wire.codec import message_to
from rmqpull_proto import columns
from tests.harness.handlers import HandlerHarness
from tests.harness.hostile_input import limit_cpu
from tests.harness.rpc_client import list_methods

METHODS = list_methods()

QUEUE = {"topic": "NORMAL", "brokerName": "broker-a", "queueId": 0}
V2_TOPIC, GROUP = {"name": "NORMAL"}, {"name": "readers"}
V2_QUEUE = {"topic": V2_TOPIC, "id": 0, "broker": {"name": "broker-a"}}
SYSTEM = {"messageId": "id", "tag": "a", "bodyEncoding": "IDENTITY", "bornTimestamp": "2020-01-01T00:00:00Z"}
MESSAGE = {"topic": V2_TOPIC, "body": "eA==", "systemProperties": SYSTEM}
DELAYED = {
    "topic": {"name": "DELAY"},
    "body": "eA==",
    "systemProperties": {"messageId": "id", "deliveryTimestamp": "1970-01-01T00:16:50Z"},
}
HALF = {
    "topic": {"name": "TRANSACTION"},
    "body": "eA==",
    "systemProperties": {"messageId": "id", "messageType": "TRANSACTION"},
}
RETRY = {"topic": {"name": "%RETRY%readers"}, "body": "eA==", "systemProperties": {**SYSTEM, "deliveryAttempt": 2}}
SUBSCRIPTION = {"group": GROUP, "subscriptions": [{"topic": V2_TOPIC, "expression": {"expression": "*"}}]}
HANDLE = "0 1000000 60000 1 0 broker-a 0 0 0"
"""Of the first message that group "readers" receives: the clock stands still."""
SOUND: dict[str, list[dict[str, Any]]] = {
    "QueryRoute": [{"topic": V2_TOPIC}],
    "QueryAssignment": [{"topic": V2_TOPIC, "group": GROUP}],
    "Telemetry": [
        {"settings": {"clientType": "PULL_CONSUMER", "subscription": SUBSCRIPTION}},
        {"settings": {"clientType": "PRODUCER", "publishing": {"topics": [V2_TOPIC]}}},
    ],
    "Heartbeat": [{"group": GROUP, "clientType": "PULL_CONSUMER"}],
    "NotifyClientTermination": [{"group": GROUP}],
    "SendMessage": [{"messages": [each]} for each in (MESSAGE, DELAYED, HALF, RETRY)],
    "EndTransaction": [{"topic": HALF["topic"], "messageId": "id", "transactionId": "id", "resolution": "COMMIT"}],
    "RecallMessage": [{"topic": DELAYED["topic"], "recallHandle": "djEgREVMQVkgYnJva2VyLWEgMTAwOTAwMSBpZA=="}],
    "ReceiveMessage": [
        {"group": GROUP, "messageQueue": V2_QUEUE, "batchSize": 2, "invisibleDuration": "60s", "attemptId": "first"},
        {"group": GROUP, "messageQueue": V2_QUEUE, "batchSize": 32, "autoRenew": True},
        {"group": {"name": "ordered"}, "messageQueue": V2_QUEUE, "batchSize": 2, "invisibleDuration": "60s"},
    ],
    "AckMessage": [{"group": GROUP, "topic": V2_TOPIC, "entries": [{"messageId": "id", "receiptHandle": HANDLE}]}],
    "ChangeInvisibleDuration": [
        {"group": GROUP, "topic": V2_TOPIC, "receiptHandle": HANDLE, "messageId": "id", "invisibleDuration": "60s"}
    ],
    "ForwardMessageToDeadLetterQueue": [
        {"group": GROUP, "topic": V2_TOPIC, "receiptHandle": HANDLE, "messageId": "id", "maxDeliveryAttempts": 16}
    ],
    "PullMessage": [{"group": GROUP, "messageQueue": V2_QUEUE, "batchSize": 32, "longPollingTimeout": "1s"}],
    "UpdateOffset": [{"group": GROUP, "messageQueue": V2_QUEUE, "offset": 1}],
    "GetOffset": [{"group": GROUP, "messageQueue": V2_QUEUE}],
    "QueryOffset": [{"messageQueue": V2_QUEUE, "queryOffsetPolicy": "TIMESTAMP", "timestamp": "2020-01-01T00:00:00Z"}],
    "PublishColumns": [{"topic": "NORMAL", "defaultTopic": "TBW102"}, {"topic": "DELAY"}],
    "StageColumns": [{"transaction": {"id": "q", "batchId": 1}, "stageId": "s", "topic": "NORMAL"}],
    "KeepStages": [{"transaction": {"id": "q", "batchId": 1}}],
    "CommitStages": [{"transaction": {"id": "q", "batchId": 1}, "stages": [{"stageId": "s", "callCount": 1}]}],
    "DropStages": [{"transaction": {"id": "q"}}],
    "PullColumns": [{"group": "readers", "queues": [{"queue": QUEUE, "commitOffset": 1}], "longPollingTimeoutMs": 9}],
    "QueryBounds": [{"topics": [{"topic": "NORMAL"}], "queryId": "q"}],
    "CutRanges": [{"ranges": [{"queue": QUEUE, "fromOffset": 0, "untilOffset": 9, "byteMax": 1, "partsMax": 1}]}],
    "CommitOffsets": [{"group": "readers", "offsets": [{"queue": QUEUE, "offset": 1}]}],
    "ReportRowsLost": [{"queryId": "q", "ranges": [{"queue": QUEUE, "fromOffset": 0, "untilOffset": 1}]}],
    "SendMessageBack": [{"group": "readers", "queue": QUEUE, "queueOffset": 0}],
    "PutTopic": [{"name": "NEW", "readQueueNums": 1}, {"name": "NORMAL", "mode": "UPDATE"}],
    "DescribeTopic": [{"name": "NORMAL"}],
    "DeleteTopic": [{"name": "FIFO"}],
    "PutGroup": [{"name": "readers", "retryMaxTimes": 3}],
    "DescribeGroup": [{"name": "readers"}],
    "DeleteGroup": [{"name": "readers"}],
    "ResetOffsets": [
        {"group": "readers", "topic": "NORMAL", "timestampMs": 5},
        {"group": "readers", "topic": "NORMAL", "brokerName": "broker-a", "queueId": 0, "offset": 1},
    ],
    "QueryLag": [{"groups": ["readers"], "topics": ["NORMAL"]}],
    "ListInFlight": [{"groups": ["readers"], "topics": ["NORMAL"], "queueId": 0, "maxMessages": 9}],
    "LockQueues": [{"group": "readers", "clientId": "tester", "queues": [QUEUE]}],
    "UnlockQueues": [{"group": "readers", "clientId": "tester", "queues": [QUEUE]}],
    "PutFaultRule": [{"rule": {"rpc": "SendMessage", "action": "FAIL", "times": 1, "topic": "NORMAL"}}],
    "ReleaseFault": [{"id": 1}],
    "DeleteFaultRules": [{"ids": [1]}],
    "AdvanceClock": [{"byMs": 1_000}, {"toMs": 1_001_000}],
}
"""Valid requests per call; the other calls need none."""

NAMES = (
    *(topic_type.name for topic_type in TopicType),
    *("", " ", "readers", "broker-a", "broker-b", "%RETRY%readers", "%DLQ%readers", "TBW102", "rmq_sys_wheel_timer"),
    *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "id", "*", "a > 5 AND TAGS IS NOT NULL", "||", "a||b"),
    *("\0", "\x85", "€\U0001f600", "x" * 300, "x" * 40_000, "12", "-1"),
)
LAST = 2**31 - 1
WHOLE = (0, 1, 2, 3, 7, -1, -2, 20, 999, 1_000, 60_000, LAST, -LAST - 1)
LONG = (*WHOLE, 2**31, 10**12, 2**63 - 1, -(2**63), 253_402_300_800_000)
TEXTS = st.sampled_from(NAMES) | st.text(max_size=3)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: TEXTS,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=3),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.sampled_from(WHOLE),
    FieldDescriptor.TYPE_INT64: st.sampled_from(LONG),
    FieldDescriptor.TYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.TYPE_ENUM: st.integers(0, 6) | st.sampled_from((-1, 99, 40_000)),
}


@st.composite
def handles(draw: st.DrawFn) -> str:
    """Receipt handles of which some fields are something wild."""
    fields = HANDLE.split()
    for index in draw(st.sets(st.integers(0, 8), max_size=2)):
        fields[index] = draw(st.sampled_from(LONG).map(str) | TEXTS | st.sampled_from(("999", "9" * 19, "9" * 5_000)))
    return " ".join(fields[: draw(st.sampled_from((9, 9, 9, 8, 7, 0)))])


@st.composite
def arrow_streams(draw: st.DrawFn) -> bytes:
    """Arrow IPC streams of the publish schema, some with arbitrary rows or flipped bits."""
    count = draw(st.integers(1, 3))
    times = st.sampled_from((None, None, 0, 1_002_000_000, -(2**63), 2**63 - 1))
    wild: dict[str, st.SearchStrategy[Any]] = {
        "body": st.sampled_from((b"x", b"x", b"x", b"", None)),
        "keys": st.none() | st.lists(st.none() | TEXTS, max_size=2),
        "properties": st.none() | st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=2),
        "bodyEncoding": st.sampled_from((None, 1, 2, 0x301, 0, -1)),
        "brokerName": st.sampled_from((None, "broker-a", "broker-b")),
        "queueId": st.sampled_from((None, 0, 1, -1, 99)),
        "priority": st.sampled_from((None, 0, 1, -1, LAST)),
    }
    others = st.lists(st.sampled_from(columns.PUBLISH_SCHEMA.names), max_size=2)
    arrays = {}
    for name in dict.fromkeys(["body", *draw(others)]):
        data_type = columns.PUBLISH_SCHEMA.field(name).type
        values = wild.get(name, times if pa.types.is_timestamp(data_type) else st.none() | TEXTS)
        arrays[name] = pa.array(draw(st.lists(values, min_size=count, max_size=count)), data_type)
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    data = bytearray(columns.write_stream(batch.schema, [batch] * draw(st.sampled_from((1, 1, 0, 2)))))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 3)))):
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


def change(draw: st.DrawFn, message: Any, wildness: int) -> None:
    """Changes about one in ``wildness`` fields of a message to any value of its type."""
    for field in message.DESCRIPTOR.fields:
        is_wild = not draw(st.integers(0, wildness))
        value = getattr(message, field.name)
        if field.name == "arrow_ipc":
            setattr(message, field.name, draw(arrow_streams()))
        elif field.name == "receipt_handle":
            if is_wild or value:
                setattr(message, field.name, draw(st.just(HANDLE) | handles()))
        elif field.message_type is None:
            if is_wild and hasattr(value, "extend"):
                value.extend(draw(st.lists(SCALARS[field.type], max_size=2)))
            elif is_wild:
                setattr(message, field.name, draw(SCALARS[field.type]))
        elif field.message_type.GetOptions().map_entry:
            if is_wild:
                value.update(draw(st.dictionaries(TEXTS, TEXTS, max_size=2)))
        elif hasattr(value, "extend"):
            if is_wild:
                value.extend([value[0] if value else value.add()])
            for each in value:
                change(draw, each, wildness)
        elif is_wild or message.HasField(field.name):
            change(draw, value, wildness)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Any]:
    """The name of a method, and a request."""
    name = draw(st.sampled_from(list(METHODS)))
    method, _ = METHODS[name]
    request = ParseDict(draw(st.sampled_from(SOUND.get(name, [{}]))), method.request())
    change(draw, request, draw(st.sampled_from((100, 10, 3))))
    return name, method.request.FromString(request.SerializeToString())


async def ask(handlers: HandlerHarness, name: str, request: Any) -> list[Any]:
    method, handler = METHODS[name]
    list(find_targets(request))
    if method.client_streaming:
        return [each async for each in handler(handlers.service, said_once(request), handlers.caller())]
    answer = handler(handlers.service, request, handlers.caller())
    return [each async for each in answer] if method.server_streaming else [await answer]


async def said_once(request: Any) -> AsyncIterator[Any]:
    yield request


async def furnish(handlers: HandlerHarness) -> None:
    """A broker with topics of every type, messages and a group. A pull does not park, but runs again at once."""
    handlers.service.parker.close()
    handlers.service.pops.close()
    said: list[tuple[str, dict[str, Any]]] = [
        *(("PutTopic", {"name": each.name, "messageType": each.name, "readQueueNums": 1}) for each in TopicType),
        ("PutGroup", {"name": "readers"}),
        ("PutGroup", {"name": "ordered", "consumeMessageOrderly": True}),
        ("Telemetry", SOUND["Telemetry"][0]),
        *(("SendMessage", each) for each in SOUND["SendMessage"]),
    ]
    for name, fields in said:
        await ask(handlers, name, ParseDict(fields, METHODS[name][0].request()))


async def look_around(handlers: HandlerHarness) -> None:
    """Everything that was accepted can be delivered, checked and read."""
    now_ms = handlers.clock.wall_ms() + 200_000_000
    for work in (deliver_due, check_transactions, partial(revive_due, new_id=lambda: "new")):
        await handlers.group_commit.execute(partial(work, now_ms=now_ms, store_host="127.0.0.1:8081"))
    state = handlers.state
    for topic in (*state.topics.values(), *state.system_topics.values()):
        for queue in state.list_writable_queues(topic) if topic.write_queue_nums < 9 else ():
            for stored in stored_columns.to_rows(state.store.read(queue, *state.bounds(queue))):
                message_to(stored, queue)


def sound(name: str, **fields: Any) -> tuple[str, Any]:
    """A method, and its first valid request with additional fields."""
    return name, ParseDict({**SOUND[name][0], **fields}, METHODS[name][0].request())


# The fixture is a class; every example creates its own broker.
@pytest.mark.edge
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(said=st.lists(calls(), min_size=1, max_size=12))
@example(said=[sound("PutFaultRule", rule={"action": 99})])
@example(said=[sound("PullColumns", maxRows=-1, queues=[{"queue": QUEUE}] * 2)])
@example(said=[sound("PutGroup", retryMaxTimes=LAST), sound("Telemetry")])
@example(said=[sound("SendMessage", messages=[{**RETRY, "systemProperties": {**SYSTEM, "deliveryAttempt": LAST}}])])
@limit_cpu
def test_any_request_is_answered_or_refused(said: list[tuple[str, Any]]) -> None:
    async def say_all() -> None:
        handlers = HandlerHarness(["broker-a", "broker-b"], BrokerProperties(enable_mixed_message_type=True))
        await furnish(handlers)
        for name, request in said:
            try:
                answers = await ask(handlers, name, request)
            except BrokerError:
                continue
            for answer in answers:
                METHODS[name][0].response.FromString(answer.SerializeToString())
        await look_around(handlers)
        await handlers.group_commit.close()

    asyncio.run(say_all())
