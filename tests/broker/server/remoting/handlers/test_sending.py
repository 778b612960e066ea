"""Sends of the remoting protocol: the stored messages, and each response (rules 3.10.1, 4.6)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from processes.apache.calls import Calls, Response
from rmqpull_broker.core.errors import FAQ
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.server.remoting.wire.message_ids import parse_offset_msg_id
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.properties import encode_properties
from tests.differential.records import read_records
from tests.harness.remoting_member import RemotingMember

COMMON = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
ALL_CODES = tuple(range(1, 1000))
ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, "
    "msg properties length limit 32KB."
)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 2, "batches": 2}, remoting=True, clock="manual") as running:
        yield running


def fields(queue_id: int = 0, topic: str = "orders", **properties: str) -> dict[str, object]:
    """The header of SEND_MESSAGE_V2."""
    text = encode_properties(properties)
    values = ("producers", topic, "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, text, 0, "false")
    return dict(zip("abcdefghijk", values, strict=True))


def send(
    broker: RunningBroker, header: dict[str, object], body: bytes = b"x", code: int = RequestCode.SEND_MESSAGE_V2
) -> Response:
    return Calls().call(broker.remoting_addresses[0], code, header, body, ALL_CODES)


def encode(body: bytes, text: bytes = b"") -> bytes:
    """A message of a batch."""
    size = 22 + len(body) + len(text)
    return struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(text)) + text


BATCH = encode(b"one", b"TAGS\x01red\x02") + encode(b"two")


def test_a_message_is_stored_with_its_properties(broker: RunningBroker) -> None:
    sent = fields(1, TAGS="red", KEYS="k1 k2", UNIQ_KEY="AB12", colour="blue", WAIT="true")
    response = send(broker, sent, b"one")
    stored = broker.messages("orders")[-1]
    message = stored.message
    assert (message.body, message.tags, message.keys, message.msg_id) == (b"one", "red", ("k1", "k2"), "AB12")
    assert (message.properties, message.system_properties) == ({"colour": "blue"}, {"WAIT": "true"})
    assert message.born_timestamp_ms == 1_700_000_000_000
    assert message.born_host.startswith("127.0.0.1:")
    assert stored.store_host == broker.remoting_addresses[0]
    msg_id = parse_offset_msg_id(response.fields.pop("msgId"))
    assert f"{msg_id.host}:{msg_id.port}" == broker.remoting_addresses[0]
    assert response.fields == {"queueId": "1", "queueOffset": "0", "transactionId": "AB12", **COMMON}


def test_messages_of_all_protocols_have_the_address_of_their_broker() -> None:
    with running_broker({"orders": 1}, brokers=("broker-a", "broker-b"), remoting=True) as broker:
        first, second = broker.remoting_addresses
        broker.send("orders", b"one", b"two")
        Calls().call(second, RequestCode.SEND_MESSAGE_V2, fields(), b"three")
        hosts = [row.store_host for row in broker.messages("orders")]
    assert hosts == [first, second, second]


def test_the_old_request_has_words_as_names(broker: RunningBroker) -> None:
    named = (
        "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag properties "
        "reconsumeTimes unitMode"
    )
    header = dict(zip(named.split(), fields(0, UNIQ_KEY="old").values(), strict=True))
    assert send(broker, header, code=RequestCode.SEND_MESSAGE).fields["transactionId"] == "old"


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_the_messages_of_a_batch_get_an_id_each(broker: RunningBroker, code: int) -> None:
    before = len(broker.messages("batches"))
    response = send(broker, fields(topic="batches") | {"m": "true"}, BATCH, code)
    stored = broker.messages("batches")[before:]
    assert [(row.message.body, row.message.tags) for row in stored] == [(b"one", "red"), (b"two", None)]
    offsets = [parse_offset_msg_id(each).physical_offset for each in response.fields.pop("msgId").split(",")]
    assert offsets[1] == offsets[0] + 1
    assert response.fields == {"queueId": "0", "queueOffset": str(before), **COMMON}


def test_a_batch_that_is_stored_as_columns_gets_the_same_response(broker: RunningBroker) -> None:
    count, before = 40, len(broker.messages("batches"))
    body = b"".join(
        encode(b"%d" % number, b"TAGS\x01t%d\x02WAIT\x01true\x02UNIQ_KEY\x01id%d" % (number, number))
        for number in range(count)
    )
    response = send(broker, fields(topic="batches", UNIQ_KEY="ALL") | {"m": "true"}, body)
    stored = broker.messages("batches")[before:]
    assert [(row.message.body, row.message.tags) for row in stored] == [
        (b"%d" % number, f"t{number}") for number in range(count)
    ]
    assert {row.store_host for row in stored} == {broker.remoting_addresses[0]}
    assert [row.message.msg_id for row in stored] == [f"id{number}" for number in range(count)]
    assert [row.queue_offset for row in stored] == [*range(before, before + count)]
    offsets = [parse_offset_msg_id(each).physical_offset for each in response.fields.pop("msgId").split(",")]
    assert offsets == [*range(offsets[0], offsets[0] + count)]
    assert response.fields == {"queueId": "0", "queueOffset": str(before), "transactionId": "ALL", **COMMON}
    refused = send(broker, fields(topic="batches", INNER_NUM="2") | {"m": "true"}, body)
    assert (refused.code, refused.remark) == (13, ILLEGAL)


@pytest.mark.proves("Properties that the broker adds to the messages of a batch")
def test_messages_of_a_batch_have_the_properties_of_the_broker_too(broker: RunningBroker) -> None:
    """Those of the request are not stored."""
    send(broker, fields(1, topic="batches", UNIQ_KEY="ALL", a="b") | {"m": "true"}, BATCH)
    asked = {"consumerGroup": "g", "topic": "batches", "queueId": 1, "queueOffset": 0, "maxMsgNums": 2, "sysFlag": 4}
    asked |= {"commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}
    pulled = Calls().call(broker.remoting_addresses[0], RequestCode.PULL_MESSAGE, asked)
    assert [record["properties"] for record in read_records(pulled.body)] == [
        {"TAGS": "red", **COMMON, "CLUSTER": "DefaultCluster"},
        {**COMMON, "CLUSTER": "DefaultCluster"},
    ]


def test_only_the_field_says_that_a_request_is_a_batch(broker: RunningBroker) -> None:
    send(broker, fields(1), BATCH, RequestCode.SEND_BATCH_MESSAGE)
    assert broker.messages("orders")[-1].message.body == BATCH


def test_a_batch_names_its_own_id_as_that_of_the_transaction(broker: RunningBroker) -> None:
    response = send(broker, fields(topic="batches", UNIQ_KEY="ALL") | {"m": "true"}, BATCH)
    assert response.fields["transactionId"] == "ALL"


def test_a_delayed_message_gets_a_handle_and_the_queue_that_it_will_come_to(broker: RunningBroker) -> None:
    response = send(broker, fields(1, TIMER_DELAY_SEC="60", UNIQ_KEY="T"))
    assert response.fields["queueId"] == "1"
    assert response.fields["recallHandle"]
    assert "recallHandle" not in send(broker, fields(1, DELAY="3")).fields


def test_a_queue_below_0_is_drawn(broker: RunningBroker) -> None:
    assert send(broker, fields(-1, "drawn")).fields["queueId"] in {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("header", "body", "code", "remark"),
    [
        (fields(topic="a b"), b"x", 29, "The specified topic: a b, contains illegal characters, allowing only "),
        (fields(topic="SCHEDULE_TOPIC_XXXX"), b"x", 16, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."),
        (fields(topic="nope") | {"c": "none"}, b"x", 17, f"topic[nope] not exist, apply first please!{FAQ}"),
        (fields(9), b"x", 29, "request queueId[9] is illegal, TopicConfig [topicName=orders, "),
        (fields(DELAY="3") | {"m": "true"}, BATCH, 13, ILLEGAL),
        (fields(INNER_NUM="3"), b"x", 13, ILLEGAL),
        (fields(TIMER_DELIVER_MS="soon"), b"x", 13, "timer message illegal, "),
    ],
)
def test_a_refusal_names_region_and_trace(
    broker: RunningBroker, header: dict[str, object], body: bytes, code: int, remark: str
) -> None:
    response = send(broker, header, body)
    assert (response.code, response.fields) == (code, COMMON)
    assert response.remark.startswith(remark)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (fields(), b""),
        (fields(topic="a b"), b""),
        (fields(DELAY="x"), b"x"),
        (fields() | {"m": "true"}, BATCH[:-1]),
        (fields() | {"m": "true"}, bytes(4_194_305)),
        (fields() | {"e": "x"}, b"x"),
        ({"a": "producers", "b": "orders"}, b"x"),
    ],
)
def test_a_request_over_which_apaches_broker_stumbles_has_no_fields(
    broker: RunningBroker, header: dict[str, object], body: bytes
) -> None:
    response = send(broker, header, body)
    assert (response.code, response.fields) == (1, {})


def test_a_topic_stays_when_its_first_message_is_refused(broker: RunningBroker) -> None:
    assert send(broker, fields(9, "kept")).code == 29
    assert send(broker, fields(3, "kept") | {"c": "none"}).code == 0


def test_a_one_way_send_gets_no_response_whether_it_is_stored_or_not(broker: RunningBroker) -> None:
    broker.create_topic("one-way", 1)
    with RemotingMember(broker.remoting_addresses[0]) as member:
        for header in (fields(topic="one-way"), fields(9, "one-way"), fields(topic="a b")):
            member.start(RequestCode.SEND_MESSAGE_V2, header, b"one-way", is_oneway=True)
        # Sends of one connection are stored in their order, so all others are done by then.
        opaque = member.start(RequestCode.SEND_MESSAGE_V2, fields(topic="one-way"), b"answered")
        assert member.receive().opaque == opaque
    assert [row.message.body for row in broker.messages("one-way")] == [b"one-way", b"answered"]


def test_the_first_trace_of_a_producer_creates_the_topic_of_traces(broker: RunningBroker) -> None:
    route = {"topic": "RMQ_SYS_TRACE_TOPIC"}
    address = broker.remoting_addresses[0]
    assert Calls().call(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, route, b"", ALL_CODES).code == 17
    assert send(broker, fields(topic="RMQ_SYS_TRACE_TOPIC"), b"Pub").code == 0
    assert Calls().call(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, route).code == 0
    assert [row.message.body for row in broker.messages("RMQ_SYS_TRACE_TOPIC")] == [b"Pub"]


@pytest.mark.proves("Requests without a field that they need, or with a text that is no number in it")
@pytest.mark.parametrize(("letter", "text"), [("c", None), ("d", None), ("g", " 1")])
def test_a_field_that_is_missing_or_no_number_is_refused_at_once(
    broker: RunningBroker, letter: str, text: str | None
) -> None:
    header = {name: value for name, value in fields().items() if name != letter} | ({letter: text} if text else {})
    refused = send(broker, header, b"one")
    assert (refused.code, refused.remark[: len(f"field {letter} is")]) == (1, f"field {letter} is")


@pytest.mark.proves("Times at which messages were born, hundreds of thousands of years away")
def test_a_time_that_no_column_can_have_is_the_nearest_one(broker: RunningBroker) -> None:
    broker.create_topic("far-away", 1)
    for time_ms in (-(1 << 63), (1 << 63) - 1):
        assert send(broker, fields(topic="far-away") | {"g": time_ms}, b"far").code == 0
    first, last = (row.message.born_timestamp_ms for row in broker.messages("far-away"))
    assert -first == last > 9_000_000_000_000_000


@pytest.mark.proves("`POP_CK` in the messages of a batch")
def test_a_place_in_another_broker_is_not_kept(broker: RunningBroker) -> None:
    broker.create_topic("popped", 1)
    sent = fields(topic="popped") | {"m": "true"}
    body = encode(b"one", b"POP_CK\x010 1\x02TAGS\x01red\x02")
    assert Calls().call(broker.remoting_addresses[0], RequestCode.SEND_BATCH_MESSAGE, sent, body).code == 0
    (stored,) = broker.messages("popped")
    assert (stored.message.tags, dict(stored.message.system_properties)) == ("red", {})


# --- recall -----------------------------------------------------------------------------------------------------------

REGION = {"MSG_REGION": "DefaultRegion"}


def recall(broker: RunningBroker, handle: str, topic: str = "orders") -> Response:
    fields = {"producerGroup": "producers", "topic": topic, "recallHandle": handle}
    return Calls().call(broker.remoting_addresses[0], RequestCode.RECALL_MESSAGE, fields, b"", ALL_CODES)


def test_a_delayed_message_is_recalled_as_often_as_one_likes() -> None:
    properties = BrokerProperties(recall_message_enable=True)
    with running_broker({"orders": 1}, remoting=True, clock="manual", properties=properties) as broker:
        handle = send(broker, fields(TIMER_DELAY_SEC="60", UNIQ_KEY="T")).fields["recallHandle"]
        for _ in range(2):
            response = recall(broker, handle)
            assert (response.code, response.remark) == (0, "not set any response code")
            assert response.fields == {"msgId": "T", **REGION}
        broker.clock.advance(seconds=100)
        assert broker.messages("orders") == []
        assert recall(broker, handle).remark == "recall failed, timestamp invalid"
        assert recall(broker, handle, "batches").remark == "recall failed, the topic[batches] not exist"
        assert recall(broker, "").remark == "recall handle is invalid"


def test_recall_may_be_switched_off() -> None:
    with running_broker(remoting=True, properties=BrokerProperties(recall_message_enable=False)) as broker:
        response = recall(broker, "any")
    assert (response.code, response.remark, response.fields) == (16, "recall failed, operation is forbidden", REGION)
