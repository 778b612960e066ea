"""Faults of pops, acknowledgements and changes over the remoting protocol: no message is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from tests.harness.remoting_member import RemotingMember
from tests.harness.rpc_client import RpcClient


class Popper:
    """A member of group "readers", for which one message waits, on a broker with a manual clock."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.member = self.connect()
        self.client = RpcClient(broker.endpoints)
        self.client.send_bodies("orders", b"x")

    def connect(self) -> RemotingMember:
        member = RemotingMember(self.broker.remoting_addresses[0])
        member.beat("readers")
        return member

    def pop(self, invisible_ms: int = 30_000) -> RemotingCommand:
        return self.member.call(
            RequestCode.POP_MESSAGE,
            {
                **self._names(),
                "maxMsgNums": 32,
                "invisibleTime": invisible_ms,
                "pollTime": 0,
                "bornTime": 0,
                "initMode": 0,
            },
        )

    def say(self, code: int, popped: RemotingCommand) -> RemotingCommand:
        """Acknowledges the message of a pop, or changes its invisible time."""
        fields = popped.fields
        handle = f"0 {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 broker-a 0 0"
        return self.member.call(code, {**self._names(), "extraInfo": handle, "offset": 0, "invisibleTime": 5_000})

    @staticmethod
    def _names() -> dict[str, Any]:
        return {"consumerGroup": "readers", "topic": "orders", "queueId": 0}

    def count(self) -> tuple[int, int]:
        """What waits, and what is in flight."""
        progress = self.client.call("QueryLag", admin.QueryLagRequest()).progress
        return sum(each.lag for each in progress), sum(each.in_flight for each in progress)


@pytest.fixture
def popper() -> Iterator[Popper]:
    with running_broker({"orders": 1}, remoting=True, clock="manual") as broker:
        popper = Popper(broker)
        yield popper
        popper.member.close()
        popper.client.channel.close()


CALLS = (RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME)


@pytest.mark.parametrize(("after", "waits", "in_flight"), [(False, 1, 0), (True, 0, 1)])
def test_the_message_of_a_pop_that_fails_comes_later(popper: Popper, after: bool, waits: int, in_flight: int) -> None:
    popper.pop()  # the group has an offset now
    popper.broker.clock.advance(seconds=30)
    popper.broker.faults.fail("POP_MESSAGE", "SYSTEM_BUSY", topic="orders", group="readers", after=after)
    assert popper.pop().code == ResponseCode.SYSTEM_BUSY
    assert popper.count() == (waits, in_flight)
    popper.broker.clock.advance(seconds=30)
    assert popper.pop().code == ResponseCode.SUCCESS
    assert popper.count() == (0, 1)


@pytest.mark.parametrize("code", CALLS)
def test_a_refused_call_leaves_the_message_in_flight(popper: Popper, code: RequestCode) -> None:
    popped = popper.pop()
    popper.broker.faults.fail(code.name, "SYSTEM_ERROR", topic="orders", group="readers")
    assert popper.say(code, popped).code == ResponseCode.SYSTEM_ERROR
    assert popper.count() == (0, 1)
    assert popper.say(code, popped).code == ResponseCode.SUCCESS
    assert popper.count() == (0, 0 if code is RequestCode.ACK_MESSAGE else 1)


@pytest.mark.parametrize("code", CALLS)
def test_a_lost_answer_does_not_undo_the_call(popper: Popper, code: RequestCode) -> None:
    popped = popper.pop()
    popper.broker.faults.disconnect(code.name, after=True)
    with pytest.raises((ConnectionError, OSError)):
        popper.say(code, popped)
    popper.member = popper.connect()
    assert popper.count() == (0, 0 if code is RequestCode.ACK_MESSAGE else 1)
    assert popper.say(code, popped).code == ResponseCode.SUCCESS
