"""Every request is answered, whatever its fields and its body are."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.json_dialect import write_json
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
