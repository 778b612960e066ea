"""Every request is answered, whatever its fields and its body are."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.header_fields import list_columns
from rmqpull_proto.remoting.json_dialect import write_json
from tests.harness.header_tables import REQUEST_HEADERS
from tests.harness.remoting_member import RemotingMember

REQUESTS = 1_000
SLOW = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}
"""They may wait, and have tests of their own."""
CODES = sorted(set(list_handlers()) - SLOW)
NAMES = """
    consumerGroup topic queueId commitOffset offset timestamp boundaryType group delayLevel maxReconsumeTimes clientID
    producerGroup srcGroup destGroup offline filterGroups compareGroup isForce setZeroIfNotFound clientAddr msgId key
    maxNum beginTimestamp endTimestamp a b c d e f g h i j k l m n defaultTopic readQueueNums writeQueueNums perm
    commitLogOffset commitOrRollback tranStateTableOffset namespace value groupName topicName
""".split()  # noqa: SIM905 (a page of names as a list)
TEXTS = """
    orders readers 0 1 -1 7 99999999999 9223372036854775807 -9223372036854775808 x true a,b UPPER %RETRY%readers ü
    7F00000100002A9F0000000000000000
""".split()  # noqa: SIM905 (as above)
KEYS = """
    clientID consumerDataSet producerDataSet groupName subscriptionDataSet topic subString subVersion expressionType
    heartbeatFingerprint withoutSub consumeType messageModel mqSet consumerGroup clientId queueId brokerName
    subscriptionData strategyName
""".split()  # noqa: SIM905 (as above)
LEAVES = (None, True, 0, -1, 1 << 40, 1 << 70, 1.5, float("inf"), "", "readers", "orders", "||", "SQL92", "a >", "TAG")
DEPTH_MAX = 4


def draw_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random() if depth < DEPTH_MAX else 1.0
    if kind < 0.3:
        return {chance.choice(KEYS): draw_value(chance, depth + 1) for _ in range(chance.randrange(5))}
    if kind < 0.5:
        return [draw_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return chance.choice(LEAVES)


def draw_body(chance: random.Random) -> bytes:
    kind = chance.random()
    if kind < 0.3:
        return b""
    if kind < 0.4:
        return chance.randbytes(40)
    return write_json({key: draw_value(chance) for key in chance.sample(KEYS, 6)})


@pytest.mark.parametrize("seed", range(2))
def test_no_request_makes_the_broker_fail(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(seed)
    topics = {"orders": 2}
    with running_broker(topics, remoting=True) as broker, RemotingMember(broker.remoting_addresses[0]) as member:
        member.beat("readers")
        for _ in range(REQUESTS):
            chosen = chance.sample(NAMES, chance.randrange(len(NAMES)))
            fields = {name: chance.choice((*TEXTS, "", "T" * 300)) for name in chosen}
            member.call(chance.choice(CODES), fields, draw_body(chance))
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


POPS = (
    *(RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME),
    *(RequestCode.PEEK_MESSAGE, RequestCode.NOTIFICATION, RequestCode.POLLING_INFO),
)
POP_TEXTS = {
    "consumerGroup": ("readers", "readers", "others", "", "T" * 300),
    "topic": ("orders", "orders", "orders", "%RETRY%readers_orders", "%RETRY%readers", "unknown", ""),
    "pollTime": ("0",),
    "order": ("true", "false"),
    "attemptId": ("a", "b", "", "T" * 300),
    "exp": ("*", "red", "||", "", "a = 1", "a >", "T" * 5_000),
    "expType": ("TAG", "SQL92", "", "XPATH"),
    "extraInfo": (
        *("0 1700000000000 60000 3 0 broker-a 0 0", "0 1700000000000 60000 999 0 broker-a 0 0", "0 1 2 3 0 b", "x"),
        *("", " ", "0 " * 50, f"{1 << 62} {1 << 62} {1 << 62} {1 << 62} 1 ü 7 {1 << 62}"),
    ),
}
NUMBERS = ("0", "0", "0", "1", "1", "-1", "32", "5000", "9223372036854775807", "-9223372036854775808", "x", "")


@pytest.mark.parametrize("seed", range(2))
def test_no_pop_makes_the_broker_fail(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever invisible times were asked for: messages are redelivered when the clock says so."""
    chance = random.Random(seed)
    running = running_broker({"orders": 2}, remoting=True, clock="manual")
    with running as broker, RemotingMember(broker.remoting_addresses[0]) as member:
        for count in range(REQUESTS):
            if not count % 20:
                broker.send("orders", b"x", b"y")
                broker.clock.advance(chance.choice((0, 1, 5_000)))
            code = chance.choice(POPS)
            names = [column.name for column in list_columns(REQUEST_HEADERS[code]) if chance.random() < 0.98]
            fields = {name: chance.choice(POP_TEXTS.get(name, NUMBERS)) for name in names}
            member.call(code, fields | ({"pollTime": "0"} if "pollTime" in fields else {}))
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_no_body_of_acknowledgements_makes_the_broker_fail(caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(1)
    keys = ("c", "t", "r", "so", "q", "rq", "pt", "it", "b", "consumerGroup", "topic", "retry", "bitSet")
    values: tuple[Any, ...] = (
        0,
        1,
        -1,
        1 << 40,
        1 << 70,
        "0",
        "1",
        "2",
        "readers",
        "orders",
        "AQ==",
        "/////w==",
        "",
        None,
        [],
        {},
        1.5,
    )
    with (
        running_broker({"orders": 2}, remoting=True) as broker,
        RemotingMember(broker.remoting_addresses[0]) as member,
    ):
        for _ in range(REQUESTS):
            acks = [
                {"c": "readers", "t": "orders", "r": "0", "so": 0, "q": 0, "rq": 999, "pt": 1, "it": 1, "b": "Aw=="}
                | {key: chance.choice(values) for key in chance.sample(keys, chance.randrange(4))}
                for _ in range(chance.randrange(3))
            ]
            member.call(RequestCode.BATCH_ACK_MESSAGE, body=write_json({"acks": acks, "brokerName": "broker-a"}))
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
