"""Topics over the remoting protocol: their settings, their messages, and what is refused (rules 3.9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from processes.apache.calls import CallRefused, Calls, Response
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.json_dialect import read_json, write_json

BROKERS = ("broker-a", "broker-b")


class Admin:
    """Sends requests to the brokers by their index."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker

    def call(self, code: int, fields: dict[str, Any] | None = None, body: bytes = b"", index: int = 0) -> Response:
        return Calls().call(self.broker.remoting_addresses[index], code, fields, body)

    def put_topic(self, topic: str, **fields: Any) -> None:
        defaults = {"defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        self.call(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {"topic": topic, "topicFilterType": "SINGLE_TAG", **defaults, **fields},
        )

    def get_topic(self, topic: str) -> Any:
        return read_json(self.call(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}).body)


@pytest.fixture
def admin() -> Iterator[Admin]:
    with running_broker({"orders": 2}, brokers=BROKERS, remoting=True) as broker:
        yield Admin(broker)


def test_a_topic_is_created_and_changed_on_all_brokers(admin: Admin) -> None:
    admin.put_topic("sales", attributes="+message.type=FIFO", order="true")
    admin.put_topic("sales", readQueueNums=8, perm=4)
    assert admin.get_topic("sales") == {
        "attributes": {"message.type": "FIFO"},
        "order": False,
        "perm": 4,
        "readQueueNums": 8,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "sales",
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    table = read_json(admin.call(RequestCode.GET_ALL_TOPIC_CONFIG, index=1).body)["topicConfigTable"]
    assert table["sales"] == admin.get_topic("sales")
    assert {"orders", "TBW102", "broker-b"} <= table.keys()


def test_several_topics_are_created_or_none(admin: Admin) -> None:
    def put(*names: str) -> None:
        listed = [{"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "attributes": None} for name in names]
        admin.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=write_json({"topicConfigList": listed}))

    put("first", "second")
    assert admin.get_topic("second")["readQueueNums"] == 1
    with pytest.raises(CallRefused) as refused:
        put("third", "no spaces")
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert "third" not in admin.broker.look(lambda state: state.topics)


@pytest.mark.proves("Topics with less than 0 queues")
@pytest.mark.proves("Flags of units (`topicSysFlag`)")
@pytest.mark.parametrize(
    ("topic", "fields", "code", "words"),
    [
        ("no spaces", {}, ResponseCode.INVALID_PARAMETER, "illegal characters"),
        ("TBW102", {}, ResponseCode.INVALID_PARAMETER, r"The topic\[TBW102\] is conflict with system topic."),
        ("sales", {"attributes": "+message.type=MIXED"}, ResponseCode.INVALID_PARAMETER, "MIXED message type is not"),
        ("sales", {"attributes": "+cleanup.policy=DELETE"}, ResponseCode.SYSTEM_ERROR, "unsupported key"),
        ("sales", {"topicFilterType": "x"}, ResponseCode.SYSTEM_ERROR, "topicFilterType is 'x'"),
        ("sales", {"readQueueNums": -1}, ResponseCode.INVALID_PARAMETER, "needs 0 to 1024 queues"),
        ("sales", {"topicSysFlag": 1}, ResponseCode.INVALID_PARAMETER, "units are not served"),
        ("sales", {"readQueueNums": "four"}, ResponseCode.SYSTEM_ERROR, "readQueueNums is 'four'"),
    ],
)
def test_bad_topics_are_refused(admin: Admin, topic: str, fields: dict[str, Any], code: int, words: str) -> None:
    with pytest.raises(CallRefused, match=words) as refused:
        admin.put_topic(topic, **fields)
    assert refused.value.code == code


def test_a_topic_without_queues_to_write_to_is_read_on(admin: Admin) -> None:
    send(admin, b"one", 1)
    admin.put_topic("orders", readQueueNums=2, writeQueueNums=0)
    with pytest.raises(CallRefused, match="is illegal") as refused:
        send(admin, b"two", 2)
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 1, "queueOffset": 0, "maxMsgNums": 9}
    more = {"sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}
    assert b"one" in admin.call(RequestCode.PULL_MESSAGE, {**fields, **more}).body
    admin.put_topic("closed", readQueueNums=0, writeQueueNums=0)
    assert admin.get_topic("closed")["readQueueNums"] == 0


def test_a_topic_is_deleted_once_and_deleting_it_again_is_no_error(admin: Admin) -> None:
    for index in (0, 1):
        admin.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}, index=index)
    with pytest.raises(CallRefused, match="No topic in this broker") as refused:
        admin.get_topic("orders")
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(("topic", "words"), [(" ", "blank"), ("TBW102", "conflict with system topic")])
def test_some_topics_cannot_be_deleted(admin: Admin, topic: str, words: str) -> None:
    with pytest.raises(CallRefused, match=words):
        admin.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})


def send(admin: Admin, body: bytes, queue: int, tag: str = "", index: int = 0) -> None:
    values = ("producers", "orders", "TBW102", 4, queue, 0, 1_700_000_000_000, 0, f"TAGS\x01{tag}\x02", 0, "false")
    fields = dict(zip("abcdefghijk", values, strict=True))
    admin.call(RequestCode.SEND_MESSAGE_V2, fields, body, index=index)


def test_the_queues_of_a_topic_with_their_messages(admin: Admin) -> None:
    for _ in range(2):
        send(admin, b"one", 1)
    send(admin, b"of the other broker", 0, index=1)
    table = read_json(admin.call(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"}).body)
    found = {key: (value["minOffset"], value["maxOffset"]) for key, value in table["offsetTable"].items()}
    assert found == {
        '{"brokerName":"broker-a","queueId":0,"topic":"orders"}': (0, 0),
        '{"brokerName":"broker-a","queueId":1,"topic":"orders"}': (0, 2),
    }
    assert table["topicPutTps"] == pytest.approx(2 / 60)
    with pytest.raises(CallRefused, match=r"topic\[nothing\] not exist"):
        admin.call(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "nothing"})


def test_the_entries_of_a_queue(admin: Admin) -> None:
    for body in (b"one", b"three"):
        send(admin, body, 0, "red")
    fields = {"topic": "orders", "queueId": 0, "index": 0, "count": 10}
    told = read_json(admin.call(RequestCode.QUERY_CONSUME_QUEUE, fields).body)
    first, second = told["queueData"]
    assert (told["minQueueIndex"], told["maxQueueIndex"]) == (0, 2)
    assert second["physicOffset"] == first["physicOffset"] + 1
    assert second["physicSize"] == first["physicSize"] + len("ee")
    assert first["tagsCode"] == 112785  # "red".hashCode()
    with pytest.raises(CallRefused, match="7@orders is not exist!"):
        admin.call(RequestCode.QUERY_CONSUME_QUEUE, {**fields, "queueId": 7})


def test_the_topics_of_the_system(admin: Admin) -> None:
    names = read_json(admin.call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)["topicList"]
    assert {"TBW102", "RMQ_SYS_TRACE_TOPIC", "broker-a"} <= set(names)
    assert "orders" not in names
