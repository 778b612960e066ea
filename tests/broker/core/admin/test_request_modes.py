"""Whether groups pull or pop when they leave the shares of queues to the broker."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.admin.request_modes import find_request_mode, put_request_mode
from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.facts import RequestModeSet
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.harness.core import CoreHarness

WANTED = RequestModeSet("orders", "readers", "POP", 2)


def test_a_mode_outlives_its_topic_and_a_restart(core: CoreHarness) -> None:
    core.topic()
    assert find_request_mode(core.state, "orders", "readers").mode == "PULL"
    core.run(lambda draft: put_request_mode(draft, WANTED))
    assert core.state.find_group("readers") is not None
    core.run(lambda draft: delete_topic(draft, "orders"))
    restarted = BrokerState(ConsumeQueues(), ["broker-a"])
    restarted.apply(core.state.to_facts())
    for state in (core.state, restarted):
        assert find_request_mode(state, "orders", "readers") == WANTED
        assert find_request_mode(state, "orders", "others").mode == "PULL"


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        (RequestModeSet("%RETRY%g", "g"), 16, "retry topic is not allowed to set mode"),
        (RequestModeSet("unknown", "g"), 17, "topic[unknown] not exist"),
        (RequestModeSet("orders", "g" * 256), 26, "subscription group does not exist"),
    ],
)
def test_refusals(core: CoreHarness, wanted: RequestModeSet, code: int, text: str) -> None:
    core.topic()
    with pytest.raises(BrokerError, match="^" + text.replace("[", r"\[") + "$") as refused:
        core.run(lambda draft: put_request_mode(draft, wanted))
    assert refused.value.response_code == code
