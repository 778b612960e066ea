"""Resets of groups with members: when brokers can do them, and what they answer."""

from __future__ import annotations

import json

import pytest

from rmqpull_client.errors import OptionError, RequestRefused
from rmqpull_client.model import EARLIEST_MS, LATEST_MS, MessageQueue, ResetTarget
from rmqpull_client.transports.remoting.broker_resets import read_offsets, read_properties
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from tests.harness.scripted_queues import QueueScript, serve_queues
from tests.harness.scripted_remoting import Reaction

QUEUES = [MessageQueue("orders", name, number) for name in ("broker-a", "broker-b") for number in range(2)]
LATEST = ResetTarget("orders", LATEST_MS)


class ResetScript:
    """A broker with members of a group. Its properties say whether it stores offsets; it may refuse resets."""

    def __init__(self, name: str, properties: str = "useServerSideResetOffset=true", refusal: str = "") -> None:
        self.name = name
        self.members = ["ann", "bob"]
        self.properties = properties
        self.refusal = refusal
        self.asked: list[dict[str, str]] = []

    def __call__(self, request: RemotingCommand) -> Reaction | None:
        if request.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            if not self.members:
                return request.make_response(1, remark="no consumer for this group, g")
            return request.make_response(0, body=json.dumps({"consumerIdList": self.members}).encode())
        if request.code == RequestCode.GET_BROKER_CONFIG and self.properties:
            return request.make_response(0, body=f"brokerName=x\n{self.properties}\n".encode())
        if request.code != RequestCode.INVOKE_BROKER_TO_RESET_OFFSET:
            return None
        self.asked.append({name: request.fields[name] for name in request.fields if name != "bname"})
        if self.refusal:
            return request.make_response(ResponseCode.CONSUMER_NOT_ONLINE, remark=self.refusal)
        first = int(request.fields.get("queueId", "0"))
        queues = (first,) if "queueId" in request.fields else range(2)
        table = ",".join(f'{{"brokerName":"{self.name}","queueId":{n},"topic":"orders"}}:{7 + n}' for n in queues)
        return request.make_response(0, body=f'{{"offsetTable":{{{table}}}}}'.encode())


def test_each_broker_is_asked_to_reset_its_queues() -> None:
    scripts = [ResetScript(name) for name in ("broker-a", "broker-b")]
    with serve_queues(*(QueueScript(others=script) for script in scripts), queues=2) as (client, _):
        reset = client.prepare_reset("g", QUEUES, LATEST)
        assert reset is not None
        assert (reset.members, reset.is_stored) == (["ann", "bob"], True)
        assert [script.asked for script in scripts] == [[], []]
        assert reset.run() == dict(zip(QUEUES, (7, 8, 7, 8), strict=True))
    asked = {"group": "g", "topic": "orders", "timestamp": "-1", "isForce": "true"}
    assert [script.asked for script in scripts] == [[asked], [asked]]


def test_one_queue_is_reset_to_an_offset() -> None:
    script = ResetScript("broker-a")
    with serve_queues(QueueScript(others=script), queues=2) as (client, _):
        reset = client.prepare_reset("g", QUEUES[1:2], ResetTarget("orders", EARLIEST_MS, 1, 5))
        assert reset is not None
        assert reset.run() == {QUEUES[1]: 8}
    assert [(fields["queueId"], fields["offset"]) for fields in script.asked] == [("1", "5")]


def test_a_group_without_members_is_left_to_its_caller() -> None:
    script = ResetScript("broker-a")
    script.members = []
    with serve_queues(QueueScript(others=script)) as (client, _):
        assert client.prepare_reset("g", QUEUES[:1], LATEST) is None


@pytest.mark.parametrize("properties", ["useServerSideResetOffset=false", "anotherName=true"])
def test_a_broker_that_only_tells_members_resets_no_single_queue(properties: str) -> None:
    """It would ignore the queue and reset all of them."""
    script = ResetScript("broker-a", properties)
    with serve_queues(QueueScript(others=script), queues=2) as (client, _):
        reset = client.prepare_reset("g", QUEUES[:2], LATEST)
        assert reset is not None
        assert not reset.is_stored
        with pytest.raises(
            OptionError, match=r"has members: ann, bob\. Broker broker-a can reset such a group only on"
        ):
            client.prepare_reset("g", QUEUES[:1], ResetTarget("orders", LATEST_MS, 0))
    assert script.asked == []


def test_a_refusal_says_which_brokers_have_reset_the_group() -> None:
    scripts = [ResetScript("broker-a"), ResetScript("broker-b", refusal="Consumer not online")]
    with serve_queues(*(QueueScript(others=script) for script in scripts), queues=2) as (client, _):
        reset = client.prepare_reset("g", QUEUES, LATEST)
        assert reset is not None
        with pytest.raises(RequestRefused, match=r"not online.*have reset the group before: broker-a") as error:
            reset.run()
        assert error.value.code == "CONSUMER_NOT_ONLINE"
        first = client.prepare_reset("g", QUEUES[2:], LATEST)
        assert first is not None
        with pytest.raises(RequestRefused, match=r"Its members have left: repeat the command.*itself\.$"):
            first.run()


def test_properties_are_read_line_by_line() -> None:
    assert read_properties(b"a=1\nb = x=y \n\nc") == {"a": "1", "b": "x=y", "": "", "c": ""}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"offsetTable":{"{}":1}}', b'{"offsetTable":{"1":1}}'])
def test_an_answer_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        read_offsets(body)
