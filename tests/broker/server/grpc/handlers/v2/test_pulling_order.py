"""The order of a pull's checks in both protocols: of two errors, the first one in rules 3.1 is reported.

``core/pulling/test_checks`` has every row; these are the rows that a gRPC client can reach. Row 3 creates a
missing group, so the group exists after a pull that fails in a later row.
"""

from __future__ import annotations

import asyncio
from itertools import combinations
from typing import Any

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import GroupConfig, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.server.grpc.handlers.columns.pulling import pull_columns
from rmqpull_broker.server.grpc.handlers.v2.pulling import pull_message
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.handlers import HandlerHarness

# Two invalid filters, and a valid one.
BARS = v2.FilterExpression(type=v2.FilterType.TAG, expression="||")
BROKEN_SQL = v2.FilterExpression(type=v2.FilterType.SQL, expression="a >")
SQL = v2.FilterExpression(type=v2.FilterType.SQL, expression="a > 1")

# What makes each check fail, by its row: fields of BrokerProperties, the state, and the request.
FAILING: dict[str, dict[str, Any]] = {
    "1": {"broker_permission": 2},
    "3": {"auto_create_subscription_group": False, "group": None},
    "4": {"group": GroupConfig("readers", consume_enable=False)},
    "5": {"topic": None},
    "6": {"topic": TopicConfig("orders", 2, 2, perm=2)},
    "8": {"queue_id": 2},
    "9a, ||": {"filter": BARS},
    "9a, SQL92": {"filter": BROKEN_SQL},
    "16": {"enable_property_filter": False, "filter": SQL},
    "17": {"reject_pull_consumer_enable": True},
}
PASSING: dict[str, Any] = {"group": None, "topic": TopicConfig("orders", 2, 2), "queue_id": 0, "filter": SQL}

REFUSALS = {
    "1": ("FORBIDDEN", "the broker[127.0.0.1] pulling message is forbidden"),
    "3": ("CONSUMER_GROUP_NOT_FOUND", "subscription group [readers] does not exist"),
    "4": ("FORBIDDEN", "subscription group no permission, readers"),
    "5": ("TOPIC_NOT_FOUND", "topic[orders] not exist"),
    "6": ("FORBIDDEN", "the topic[orders] pulling message is forbidden"),
    "8": ("BAD_REQUEST", "queueId[2] is illegal"),
    "9a, ||": ("ILLEGAL_FILTER_EXPRESSION", "parse the consumer's subscription failed"),
    "9a, SQL92": ("ILLEGAL_FILTER_EXPRESSION", ""),
    "16": ("INTERNAL_SERVER_ERROR", "The broker does not support consumer to filter message by SQL92"),
    "17": ("INTERNAL_SERVER_ERROR", "the consumer's group info not exist, or the pull consumer is rejected"),
}
IN_COLUMNS = {"5": ("OK", "NO_MATCHED_LOGIC_QUEUE"), "8": ("OK", "NO_MATCHED_LOGIC_QUEUE")}
"""The differences of PullColumns: a missing queue has its own status, and does not refuse the pull."""


async def pull_standard(handlers: HandlerHarness, queue_id: int, expression: v2.FilterExpression) -> str:
    request = service_pb2.PullMessageRequest(
        group=v2.Resource(name="readers"),
        message_queue=v2.MessageQueue(topic=v2.Resource(name="orders"), id=queue_id),
        filter_expression=expression,
    )
    parts = [part async for part in pull_message(handlers.service, request, handlers.caller())]
    return parts[0].status.message


async def pull_in_columns(handlers: HandlerHarness, queue_id: int, expression: v2.FilterExpression) -> str:
    queue = v1.QueuePull(queue=v1.Queue(topic="orders", broker_name="broker-a", queue_id=queue_id))
    request = v1.PullColumnsRequest(group="readers", queues=[queue], filter_expression=expression)
    answer = await pull_columns(handlers.service, request, handlers.caller())
    return v1.PullStatus.Name(answer.response.queues[0].pull_status)


RPCS = {"PullMessage": pull_standard, "PullColumns": pull_in_columns}
both_rpcs = pytest.mark.parametrize("rpc_name", RPCS)
PAIRS = [pair for pair in combinations(FAILING, 2) if not FAILING[pair[0]].keys() & FAILING[pair[1]].keys()]


def answer_of(rpc_name: str, faults: dict[str, Any]) -> tuple[tuple[str, str], bool]:
    """The (code, message) of a pull with these errors, and whether the group exists afterwards."""
    setup = {**PASSING, **faults}
    properties = {name: value for name, value in setup.items() if name not in PASSING}

    async def story() -> tuple[tuple[str, str], bool]:
        handlers = HandlerHarness(properties=BrokerProperties(**properties))
        if setup["topic"]:
            await handlers.group_commit.execute(lambda draft: put_topic(draft, setup["topic"]))
        if setup["group"]:
            await handlers.group_commit.execute(lambda draft: put_group(draft, setup["group"]))
        try:
            answer = "OK", await RPCS[rpc_name](handlers, setup["queue_id"], setup["filter"])
        except BrokerError as refusal:
            answer = refusal.code, str(refusal)
        return answer, "readers" in handlers.state.groups

    return asyncio.run(story())


def check(rpc_name: str, row: str, answer: tuple[str, str]) -> None:
    code, sentence = (IN_COLUMNS if rpc_name == "PullColumns" else {}).get(row, REFUSALS[row])
    assert answer[0] == code
    assert answer[1].startswith(sentence)


@both_rpcs
def test_without_an_error_the_queue_is_read(rpc_name: str) -> None:
    assert answer_of(rpc_name, {}) == (("OK", "NO_MESSAGE_IN_QUEUE"), True)


@both_rpcs
@pytest.mark.parametrize("row", FAILING)
def test_an_error_is_reported_by_its_row(rpc_name: str, row: str) -> None:
    answer, is_created = answer_of(rpc_name, FAILING[row])
    check(rpc_name, row, answer)
    assert is_created == (row not in ("1", "3"))


@both_rpcs
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_errors_the_first_row_is_reported(rpc_name: str, first: str, second: str) -> None:
    answer, is_created = answer_of(rpc_name, {**FAILING[first], **FAILING[second]})
    check(rpc_name, first, answer)
    assert is_created == (first not in ("1", "3") or second == "4")
