"""Pulls of the remoting protocol, from the request to the records of the response."""

from __future__ import annotations

import threading

import numpy as np

from processes.apache.calls import Calls, Response
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.messages.stored_columns import decode_columns
from rmqpull_proto.remoting.messages.stored_messages import locate_records

NOT_FOUND = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)
SUSPEND, SUBSCRIPTION = 2, 4


def pull(address: str, offset: int, *, flags: int = SUBSCRIPTION, subscription: str = "*") -> Response:
    fields = {
        "consumerGroup": "billing",
        "topic": "orders",
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subscription": subscription,
        "subVersion": 0,
    }
    return Calls().call(address, RequestCode.PULL_MESSAGE, fields, refusals_allowed=NOT_FOUND)


def read_bodies(response: Response) -> list[bytes]:
    table = locate_records(response.body, np.array([0]), np.array([len(response.body)]))
    return [body.as_py() for body in decode_columns(table, ["body"]).column("body")]


def test_a_pull_returns_messages_and_the_next_offset() -> None:
    with running_broker({"orders": 1}, remoting=True) as broker:
        broker.send("orders", b"one", b"two", b"three")
        response = pull(broker.remoting_addresses[0], 1)
    assert read_bodies(response) == [b"two", b"three"]
    assert (response.fields["nextBeginOffset"], response.fields["maxOffset"]) == ("3", "3")


def test_a_pull_beyond_the_end_is_told_where_to_go_on() -> None:
    with running_broker({"orders": 1}, remoting=True) as broker:
        broker.send("orders", b"one")
        response = pull(broker.remoting_addresses[0], 7)
    assert (response.code, response.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "1")


def test_a_parked_pull_returns_when_a_message_arrives() -> None:
    with running_broker({"orders": 1}, remoting=True, clock="manual") as broker:
        found: list[Response] = []
        waiting = threading.Thread(
            target=lambda: found.append(pull(broker.remoting_addresses[0], 0, flags=SUBSCRIPTION | SUSPEND))
        )
        waiting.start()
        broker.send("orders", b"one")
        waiting.join(60)
        assert read_bodies(found[0]) == [b"one"]
