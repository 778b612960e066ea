"""When pulls that brought nothing are repeated, and when their time is up. The clock is the test's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerBusy, BrokerUnavailable
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.remoting.network.cluster import Place
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_client.transports.remoting.reading.pull_plan import QueuePlan, Span
from rmqpull_client.transports.remoting.reading.repeats import PULL, PullRepeats
from rmqpull_proto.remoting.codes import ResponseCode

REFUSED = ConnectionLost(Cause.NOT_CONNECTED, "Connection refused")
BROKER = Place("10.0.0.1:10911", "broker-a")
SLAVE = Place("10.0.0.2:10911", "broker-a", 1)
GIVEN = Place("10.0.0.1:10911", "broker-a", is_given=True)
"""As ``BROKER``, but an option names the address: it may be wrong, as long as nobody has answered there."""


class Run:
    """One pull of a reader that waits ``request_s`` for servers, and ``away_s`` for those that are away."""

    def __init__(self, request_s: float = 10.0, away_s: float = 60.0) -> None:
        self.now_s = 100.0
        self.connection = Connection(
            name_servers="10.0.0.9:9876",
            request_timeout_ms=int(request_s * 1000),
            server_away_timeout_ms=int(away_s * 1000),
        )
        self.repeats = PullRepeats(self.connection, lambda: self.now_s)
        plan = QueuePlan(QueueRange(MessageQueue("orders", "broker-a", 0), 0, 100), 100)
        self.pull = Span(plan, 0, 100)

    def repeat_until_error(self, fail: Callable[[], None]) -> float:
        """Fails the pull each time it is due. Returns after how many seconds time was up."""
        begun_s = self.now_s
        while True:
            try:
                fail()
            except (BrokerUnavailable, BrokerBusy):
                return self.now_s - begun_s
            next_s = self.repeats.next_s
            assert next_s is not None, "the pull is repeated"
            self.now_s = max(self.now_s, next_s)
            assert self.repeats.take_due() == [self.pull]


@pytest.mark.parametrize(("place", "limit_s"), [(BROKER, 60.0), (GIVEN, 10.0)])
def test_a_broker_that_a_route_names_is_waited_for_longer(place: Place, limit_s: float) -> None:
    run = Run()
    waited_s = run.repeat_until_error(lambda: run.repeats.add_lost(run.pull, place, REFUSED))
    assert limit_s - 2 < waited_s <= limit_s


def test_a_busy_broker_is_asked_for_the_time_of_a_request() -> None:
    run = Run()
    busy = PULL.make_response(ResponseCode.SYSTEM_BUSY)
    assert 8 < run.repeat_until_error(lambda: run.repeats.add_response(run.pull, BROKER, busy)) <= 10


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.TOPIC_NOT_EXIST])
def test_a_slave_that_cannot_serve_is_asked_as_long_as_its_master_may_be_away(code: ResponseCode) -> None:
    run = Run()
    response = PULL.make_response(code)
    assert 58 < run.repeat_until_error(lambda: run.repeats.add_response(run.pull, SLAVE, response)) <= 60


def test_a_broker_that_comes_back_busy_has_the_time_of_a_request_again() -> None:
    run = Run()
    for _ in range(3):
        run.repeats.add_lost(run.pull, BROKER, REFUSED)
        run.now_s += 9
        run.repeats.take_due()
    assert run.now_s == 127
    run.repeats.add_response(run.pull, BROKER, PULL.make_response(ResponseCode.SYSTEM_BUSY))
    assert run.repeats.next_s is not None


def test_a_broker_that_no_route_names_now_is_waited_for() -> None:
    run = Run()
    gone = BrokerUnavailable("the route does not name it")
    assert 58 < run.repeat_until_error(lambda: run.repeats.add_not_located(run.pull, gone)) <= 60


def test_a_silent_broker_is_overdue_after_a_request_and_given_up_after_the_limit() -> None:
    run = Run()
    run.pull.sent_s = run.now_s
    run.now_s += 9.9
    assert not run.repeats.is_overdue(run.pull, BROKER)
    for _ in range(5):
        run.now_s += 10
        assert run.repeats.is_overdue(run.pull, BROKER)
    run.now_s += 10
    with pytest.raises(BrokerUnavailable, match=r"within 60000 ms .*no response"):
        run.repeats.is_overdue(run.pull, BROKER)


def test_progress_begins_a_new_limit() -> None:
    run = Run()
    run.repeats.add_lost(run.pull, BROKER, REFUSED)
    run.now_s += 59
    run.repeats.take_due()
    run.repeats.forget(run.pull)
    assert run.repeat_until_error(lambda: run.repeats.add_lost(run.pull, BROKER, REFUSED)) > 58
