"""PublishColumns and SendMessageBack over gRPC (rules 3.10.3)."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_broker.core.model import BodyEncoding
from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.rpc_client import RpcClient

# --- PublishColumns ---------------------------------------------------------------------------------------------------


ORDERS = [v2.MessageQueue(topic=v2.Resource(name="orders"), id=queue_id) for queue_id in (0, 1)]
SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"), id=0)


def stream_of(*batches: pa.RecordBatch) -> bytes:
    return columns.write_stream(batches[0].schema, batches)


def batch_of(**values: list[Any]) -> pa.RecordBatch:
    schema = columns.select(columns.PUBLISH_SCHEMA, values)
    return pa.RecordBatch.from_pydict(values, schema=schema)


def publish(topic: str, *batches: pa.RecordBatch) -> v1.PublishColumnsRequest:
    return v1.PublishColumnsRequest(topic=topic, arrow_ipc=stream_of(*batches))


def ranges_of(answer: Any) -> list[tuple[str, str, int, int, int]]:
    assert answer.status.code == v2.Code.OK, answer.status
    return [
        (part.queue.topic, part.queue.broker_name, part.queue.queue_id, part.first_offset, part.row_count)
        for part in answer.ranges
    ]


def test_rows_go_to_all_queues_in_slices_and_the_response_has_their_offsets(client: RpcClient) -> None:
    answer = client.call("PublishColumns", publish("orders", batch_of(body=[b"0", b"1", b"2", b"3", b"4"])))
    assert ranges_of(answer) == [("orders", "broker-a", 0, 0, 3), ("orders", "broker-a", 1, 0, 2)]
    assert client.pull(ORDERS[0], 0).bodies == [b"0", b"1", b"2"]
    assert client.pull(ORDERS[1], 0).bodies == [b"3", b"4"]


def test_a_minimum_of_rows_in_a_slice_takes_fewer_queues(client: RpcClient) -> None:
    request = publish("orders", batch_of(body=[b"0", b"1", b"2"]))
    request.slice_rows_min = 2
    assert [ranges_of(client.call("PublishColumns", request)) for _ in range(2)] == [
        [("orders", "broker-a", queue_id, 0, 3)] for queue_id in (0, 1)
    ]


@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize("slice_rows_min", [-1, 65_537])
def test_a_minimum_out_of_range_is_refused(client: RpcClient, slice_rows_min: int, is_part: bool) -> None:
    request = v1.PublishColumnsRequest(arrow_ipc=stream_of(GOOD))
    if is_part:
        request.parts.append(v1.TopicPart(topic="single", row_count=1, slice_rows_min=slice_rows_min))
    else:
        request.topic, request.slice_rows_min = "single", slice_rows_min
    answer = client.call("PublishColumns", request)
    assert v2.Code.Name(answer.status.code) == "BAD_REQUEST"
    assert answer.status.message.endswith(f"slice_rows_min {slice_rows_min} of topic single is not from 0 to 65536")


def test_batches_and_single_sends_take_turns_together(client: RpcClient) -> None:
    client.call("PublishColumns", publish("orders", batch_of(body=[b"batch"])))
    client.send_bodies("orders", b"single")
    assert client.pull(ORDERS[1], 0).bodies == [b"single"]


def test_only_the_body_is_required(client: RpcClient) -> None:
    client.call("PublishColumns", publish("single", batch_of(body=[b"a", b"b"])))
    first, second = (message.system_properties for message in client.pull(SINGLE, 0).messages)
    assert first.message_id
    assert first.message_id != second.message_id
    assert re.fullmatch(r"127\.0\.0\.1:\d+", first.born_host)
    assert first.body_encoding == v2.Encoding.IDENTITY
    assert first.HasField("born_timestamp")
    assert not first.HasField("tag")


def test_published_columns_can_be_read_over_the_standard_protocol(client: RpcClient) -> None:
    batch = batch_of(
        body=[b"a"], tags=["t"], keys=[["k1", "k2"]], properties=[[("p", "1")]], msgId=["id"], bodyEncoding=[2]
    )
    client.call("PublishColumns", publish("single", batch))
    (message,) = client.pull(SINGLE, 0).messages
    system = message.system_properties
    assert (system.tag, list(system.keys), system.message_id) == ("t", ["k1", "k2"], "id")
    assert (dict(message.user_properties), system.body_encoding) == ({"p": "1"}, v2.Encoding.GZIP)


def test_several_batches_of_one_stream_are_one_batch(client: RpcClient) -> None:
    answer = client.call("PublishColumns", publish("single", batch_of(body=[b"a"]), batch_of(body=[b"b", b"c"])))
    assert ranges_of(answer) == [("single", "broker-a", 0, 0, 3)]


GOOD = batch_of(body=[b"a"])
CUT = stream_of(batch_of(body=[b"a" * 1000]))[:500]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (publish("unknown", GOOD), "TOPIC_NOT_FOUND"),
        (publish("", GOOD), "ILLEGAL_TOPIC"),
        (v1.PublishColumnsRequest(topic="single"), "MESSAGE_CORRUPTED"),
        (v1.PublishColumnsRequest(topic="single", arrow_ipc=b"no arrow"), "MESSAGE_CORRUPTED"),
        (v1.PublishColumnsRequest(topic="single", arrow_ipc=CUT), "MESSAGE_CORRUPTED"),
        (publish("single", batch_of(body=[])), "MESSAGE_CORRUPTED"),
        (publish("single", batch_of(tags=["no body"])), "MESSAGE_CORRUPTED"),
        (publish("single", pa.RecordBatch.from_pydict({"body": ["text"]})), "MESSAGE_CORRUPTED"),
        (publish("single", pa.RecordBatch.from_pydict({"body": [b"a"], "colour": ["x"]})), "MESSAGE_CORRUPTED"),
        (publish("single", batch_of(body=[None])), "MESSAGE_BODY_EMPTY"),
        (publish("single", batch_of(body=[b"a", b"b"], tags=[None, "a|b"])), "ILLEGAL_MESSAGE_TAG"),
        (publish("single", batch_of(body=[b"a"], properties=[[("KEYS", "1")]])), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        (publish("single", batch_of(body=[b"a"], messageGroup=["g"])), "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
    ],
)
def test_a_bad_batch_is_refused_as_a_whole(client: RpcClient, request_: v1.PublishColumnsRequest, code: str) -> None:
    answer = client.call("PublishColumns", request_)
    assert v2.Code.Name(answer.status.code) == code
    assert answer.status.message
    assert not answer.ranges
    assert client.bounds("single").queues[0].max_offset == 0


def test_an_unknown_body_encoding_is_refused(client: RpcClient) -> None:
    assert client.code("PublishColumns", publish("single", batch_of(body=[b"a"], bodyEncoding=[7]))) == (
        "MESSAGE_CORRUPTED"
    )
    assert client.pull(SINGLE, 0).code == "MESSAGE_NOT_FOUND"


def test_a_batch_creates_its_topic_from_the_default_topic(client: RpcClient) -> None:
    request = publish("fresh", batch_of(body=[b"a", b"b", b"c", b"d", b"e"]))
    assert client.code("PublishColumns", request) == "TOPIC_NOT_FOUND"
    request.default_topic = "TBW102"
    answer = client.call("PublishColumns", request)
    assert [row_count for *_, row_count in ranges_of(answer)] == [2, 1, 1, 1]
    request.topic, request.default_topic_queue_nums = "narrow", 1
    assert [row_count for *_, row_count in ranges_of(client.call("PublishColumns", request))] == [5]


def test_the_ways_of_packing_are_told_apart_in_columns_and_are_one_over_the_standard_protocol(
    client: RpcClient,
) -> None:
    assert {encoding.name: int(encoding) for encoding in BodyEncoding} == columns.BODY_ENCODINGS
    numbers = sorted(columns.BODY_ENCODINGS.values())
    bodies = [str(number).encode() for number in numbers]
    client.call("PublishColumns", publish("single", batch_of(body=bodies, bodyEncoding=numbers)))
    said = [message.system_properties.body_encoding for message in client.pull(SINGLE, 0).messages]
    assert said == [v2.Encoding.IDENTITY] + [v2.Encoding.GZIP] * 4
    pull = v1.QueuePull(queue=v1.Queue(topic="single", broker_name="broker-a"))
    answer = client.call("PullColumns", v1.PullColumnsRequest(group="g", queues=[pull], columns=["bodyEncoding"]))
    assert read_stream(answer.arrow_ipc, PULLABLE_SCHEMA)[0].column("bodyEncoding").to_pylist() == numbers


# --- SendMessageBack --------------------------------------------------------------------------------------------------


CONSUMED = v1.Queue(topic="single", broker_name="broker-a", queue_id=0)
DEAD = v2.MessageQueue(topic=v2.Resource(name="%DLQ%readers"), id=0)


def back(group: str = "readers", queue: v1.Queue = CONSUMED, **fields: Any) -> v1.SendMessageBackRequest:
    return v1.SendMessageBackRequest(group=group, queue=queue, **fields)


@pytest.fixture
def consumer(client: RpcClient) -> RpcClient:
    """A client that has sent one message."""
    client.send_bodies("single", b"bad", tag="red")
    return client


@pytest.mark.proves("A returned message (CONSUMER_SEND_MSG_BACK)")
def test_a_message_without_further_retries_is_a_dead_letter(consumer: RpcClient) -> None:
    assert consumer.code("SendMessageBack", back(delay_level=-1)) == "OK"
    (message,) = consumer.pull(DEAD, 0).messages
    assert (message.body, message.system_properties.tag) == (b"bad", "red")
    assert (message.system_properties.message_id, message.system_properties.delivery_attempt) == ("m", 2)
    assert dict(message.user_properties) == {}


@pytest.mark.parametrize(("fields", "dead_letters"), [({}, 0), ({"max_reconsume_times": 0}, 1)])
def test_the_consumers_limit_wins_over_the_groups(
    consumer: RpcClient, fields: dict[str, Any], dead_letters: int
) -> None:
    assert consumer.code("SendMessageBack", back(**fields)) == "OK"
    # The first send-back creates the group's retry topic, which is empty until the delay has passed.
    assert consumer.bounds("%RETRY%readers").queues[0].max_offset == 0
    assert len(consumer.bounds("%DLQ%readers").queues) == dead_letters


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (back(group=" "), "ILLEGAL_CONSUMER_GROUP", "blank"),
        (back(queue=v1.Queue(topic="single")), "BAD_REQUEST", "name of its broker"),
        (back(queue_offset=1), "INTERNAL_SERVER_ERROR", "look message by offset failed, 1"),
    ],
)
def test_a_bad_send_back_is_refused(
    consumer: RpcClient, request_: v1.SendMessageBackRequest, code: str, text: str
) -> None:
    status = consumer.call("SendMessageBack", request_).status
    assert v2.Code.Name(status.code) == code
    assert text in status.message
