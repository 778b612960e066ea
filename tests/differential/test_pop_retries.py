"""What comes again after its invisible time, on the emulator and on a real Apache RocketMQ: stories of raw requests.

They need real time, so they are few, and no random sequences.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator, Mapping

import pytest

from processes.apache.cluster import ApacheCluster
from processes.apache.releases import Release
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode
from tests.differential.comparison import compare
from tests.differential.runner import LIKE_APACHE, Address, Answer, Run
from tests.differential.send_steps import begin
from tests.differential.steps import OWN, Step

AGAIN_WITHIN_S = 90.0
"""Apache's broker looks at what is due in rounds, which take seconds."""
_LOOK_S = 0.2
SHORT, LONG = "1000", "600000"
PLACE = {"consumerGroup": f"{OWN}readers", "topic": f"{OWN}orders", "queueId": "0"}
RECEIPT = {
    "consumerGroup": "⟨popgroup 0⟩",
    "topic": "⟨poptopic 0⟩",
    "queueId": "⟨popqueue 0⟩",
    "offset": "⟨popoffset 0⟩",
    "extraInfo": "⟨receipt 0⟩",
}
ACK = Step("acknowledge", RequestCode.ACK_MESSAGE, RECEIPT)
PEEK = Step("peek", RequestCode.PEEK_MESSAGE, {**PLACE, "maxMsgNums": "32"})


def pop(invisible_ms: str = SHORT, **changed: str) -> Step:
    fields = {"maxMsgNums": "1", "invisibleTime": invisible_ms, "pollTime": "0", "bornTime": "0", "initMode": "0"}
    return Step("pop", RequestCode.POP_MESSAGE, {**PLACE, **fields, **changed})


def change(invisible_ms: str) -> Step:
    fields = {**RECEIPT, "invisibleTime": invisible_ms}
    return Step("change the invisible time", RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)


class Both:
    """The same names on both servers. Each answer must be the same."""

    def __init__(self, own: str, runs: Mapping[str, Run]) -> None:
        self._own = own
        self._runs = runs

    def do(self, step: Step) -> Answer:
        """Sends a request to both. Returns the emulator's answer."""
        return self._compare(step, {name: run.do(step) for name, run in self._runs.items()})

    def do_until_found(self, step: Step) -> Answer:
        """Pops until a message comes, on both."""
        return self._compare(step, {name: self._pop_until_found(run, step) for name, run in self._runs.items()})

    def _compare(self, step: Step, answers: Mapping[str, Answer]) -> Answer:
        assert compare(step, answers["emulator"], answers["apache"], self._own) == [], answers
        return answers["emulator"]

    @staticmethod
    def _pop_until_found(run: Run, step: Step) -> Answer:
        give_up = time.monotonic() + AGAIN_WITHIN_S
        while (answer := run.do(step)).code != 0:
            assert time.monotonic() < give_up, f"nothing came again: {answer}"
            time.sleep(_LOOK_S)
        return answer


@pytest.fixture(scope="module")
def emulator() -> Iterator[Address]:
    with running_broker(remoting=True, properties=LIKE_APACHE) as broker:
        (address,) = broker.remoting_addresses
        yield Address(address, address)


@pytest.fixture
def both(emulator: Address, apache: ApacheCluster, apache_release: Release) -> Iterator[Both]:
    if apache_release.name == "4.9":
        pytest.skip("4.9 knows no pop")
    real = Address(apache.addresses, apache.brokers[0].address, is_late=True)
    own = f"d{uuid.uuid4().hex[:10]}"
    with Run(emulator, own) as mine, Run(real, own) as theirs:
        servers = Both(own, {"emulator": mine, "apache": theirs})
        servers.do(dataclasses.replace(begin("orders")))
        yield servers


def test_a_message_comes_again_until_it_is_acknowledged(both: Both) -> None:
    """It comes by the retry topic, with its attempts counted."""
    both.do(pop())
    both.do_until_found(pop())
    both.do_until_found(pop(LONG))
    both.do(ACK)
    both.do(PEEK)
    both.do(pop())


def test_an_expired_receipt_is_taken(both: Both) -> None:
    """After the message has come again, an acknowledgement of its first delivery changes nothing."""
    both.do(pop())
    first = {name: text.replace(" 0⟩", " 1⟩") for name, text in RECEIPT.items()}
    both.do_until_found(pop(LONG))
    assert both.do(dataclasses.replace(ACK, fields=first)).code == 0
    both.do(ACK)
    both.do(pop())


def test_a_changed_message_comes_again_by_the_retry_topic(both: Both) -> None:
    both.do(pop(LONG))
    both.do(change(SHORT))
    both.do_until_found(pop(LONG))
    both.do(change(SHORT))
    both.do_until_found(pop(LONG))
    both.do(ACK)


def test_in_order_a_message_comes_again_in_its_queue(both: Both) -> None:
    """With the number of its deliveries in ``orderCountInfo``."""
    in_order = {"order": "true", "attemptId": "a"}
    both.do(pop(**in_order))
    both.do(pop(**in_order | {"attemptId": "b"}))
    for attempt in "cd":
        both.do_until_found(pop(**in_order | {"attemptId": attempt}))
    both.do_until_found(pop(LONG, **in_order | {"attemptId": "e"}))
    both.do(change(SHORT))
    both.do_until_found(pop(LONG, **in_order | {"attemptId": "f"}))
    both.do(ACK)
    both.do(pop(LONG, **in_order | {"attemptId": "g"}))
