"""Which requests go out when, and what becomes of those that a broker does not store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.sending.outbox import Outbox
from rmqpull_client.transports.remoting.sending.queue_choice import Turns
from rmqpull_client.transports.remoting.sending.send_request import Outcome, SendCall, SendLimits, SendRequest

A = [MessageQueue("orders", "a", number) for number in range(2)]
B = [MessageQueue("orders", "b", number) for number in range(2)]


class Rows(NamedTuple):
    """The content of a request: row numbers."""

    rows: tuple[int, ...]

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def halve(self) -> list[Rows]:
        middle = len(self.rows) // 2
        return [Rows(self.rows[:middle]), Rows(self.rows[middle:])]


class OutboxRun:
    """A harness: an outbox with a clock, and the requests that it has sent."""

    def __init__(self, timeout_s: float = 10.0, retries_max: int | None = None, away_s: float = 0.0) -> None:
        self.box = Outbox(Turns(lambda count: 0), SendLimits(timeout_s, retries_max, 0.05, away_s))
        self.now_s = 100.0

    def add(
        self,
        *rows: int,
        queue: MessageQueue | None = None,
        queues: Sequence[MessageQueue] = (*A, *B),
        call: SendCall | None = None,
    ) -> SendRequest:
        request = SendRequest(call or SendCall(), "orders", queues, queue, Rows(rows))
        self.box.add(request)
        return request

    def send(self) -> list[SendRequest]:
        return list(self.box.take_ready(self.now_s))

    def settle(self, request: SendRequest, outcome: Outcome, text: str = "no") -> None:
        error = None if outcome is Outcome.STORED else BrokerUnavailable(text)
        self.box.settle(request, outcome, error, self.now_s)

    def skip_ahead(self) -> None:
        """Moves the clock to the next moment at which something is to do."""
        next_s = self.box.find_next_s()
        assert next_s is not None, "nothing is to do"
        self.now_s = max(next_s, self.now_s)


@pytest.fixture
def run() -> OutboxRun:
    return OutboxRun()


def test_requests_for_any_queue_go_out_at_once_to_the_queues_in_turn(run: OutboxRun) -> None:
    requests = [run.add(number, number + 1) for number in range(5)]
    assert run.send() == requests
    assert [request.queue for request in requests] == [*A, *B, A[0]]


def test_a_broker_gets_eight_batches_or_512_messages_at_a_time(run: OutboxRun) -> None:
    batches = [run.add(1, 2, queues=A) for _ in range(10)]
    assert run.send() == batches[:8]
    run.settle(batches[3], Outcome.STORED)
    assert run.send() == batches[8:9]
    other = OutboxRun()
    for number in range(600):
        other.add(number, queues=A)
    assert len(other.send()) == 512


def test_a_full_broker_does_not_delay_another_topic(run: OutboxRun) -> None:
    for _ in range(9):
        run.add(1, 2, queues=A)
    paid = SendRequest(SendCall(), "paid", B, None, Rows((1,)))
    run.box.add(paid)
    assert paid in run.send()


def test_an_ordered_queue_has_one_request_in_flight_and_the_queues_do_not_wait_for_each_other(run: OutboxRun) -> None:
    first, second, other = run.add(1, queue=A[0]), run.add(2, queue=A[0]), run.add(3, queue=A[1])
    assert run.send() == [first, other]
    assert run.send() == []
    run.settle(first, Outcome.STORED)
    assert run.send() == [second]


def test_a_retry_of_an_ordered_queue_goes_before_what_waits_behind_it(run: OutboxRun) -> None:
    first, second = run.add(1, queue=A[0]), run.add(2, queue=A[0])
    run.send()
    run.settle(first, Outcome.LOST)
    assert run.send() == []
    run.skip_ahead()
    assert run.send() == [first]
    run.settle(first, Outcome.STORED)
    assert run.send() == [second]


@pytest.mark.parametrize("outcome", [Outcome.RETRY, Outcome.BUSY, Outcome.LOST])
def test_a_request_for_any_queue_is_retried_on_another_broker(run: OutboxRun, outcome: Outcome) -> None:
    request = run.add(1)
    run.send()
    assert request.queue in A
    run.settle(request, outcome)
    run.skip_ahead()
    assert run.send() == [request]
    assert request.queue in B


def test_a_broker_that_is_away_gets_nothing_for_a_second(run: OutboxRun) -> None:
    lost = run.add(1)
    run.send()
    run.settle(lost, Outcome.LOST)
    for number in range(4):
        run.add(number)
    assert {request.queue.broker_name for request in run.send() if request.queue} == {"b"}
    run.now_s += 1.0
    for number in range(4):
        run.add(number)
    assert "a" in {request.queue.broker_name for request in run.send() if request.queue}


def test_if_all_brokers_are_away_they_are_tried_again(run: OutboxRun) -> None:
    request = run.add(1, queues=A)
    run.send()
    run.settle(request, Outcome.LOST)
    run.skip_ahead()
    assert run.send() == [request]


def test_a_busy_broker_gets_half_as_much_and_slowly_more_again(run: OutboxRun) -> None:
    batches = [run.add(1, 2, queues=A) for _ in range(40)]
    for request in run.send()[:3]:  # 512 becomes 64, which is one batch
        run.settle(request, Outcome.BUSY)
    for request in batches[3:8]:
        run.settle(request, Outcome.STORED)
    assert len(run.send()) == 2


def test_single_messages_make_more_room_too(run: OutboxRun) -> None:
    for _ in range(600):
        run.add(1, queues=A)
    sent = run.send()
    for request in sent[:10]:  # 512 becomes 1
        run.settle(request, Outcome.BUSY)
    for request in sent[10:]:
        run.settle(request, Outcome.STORED)
    assert len(run.send()) == 88


def test_a_refused_batch_is_halved_until_the_illegal_message_is_alone(run: OutboxRun) -> None:
    call = SendCall()
    run.add(1, 2, 3, 4, 5, queue=A[0], call=call)
    run.add(6, queue=A[0], call=call)
    stored = list[int]()
    while sent := run.send():
        for request in sent:
            if 3 in request.content.rows:
                run.settle(request, Outcome.ILLEGAL, "it is 3")
            else:
                stored += request.content.rows
                run.settle(request, Outcome.STORED)
    assert call.is_done
    assert call.error is None
    assert (stored, call.reasons) == ([1, 2, 4, 5, 6], {3: "it is 3"})


def test_pauses_between_retries_double_up_to_a_second(run: OutboxRun) -> None:
    request, pauses = run.add(1, queue=A[0]), []
    for _ in range(7):
        assert run.send() == [request]
        run.settle(request, Outcome.RETRY)
        before_s = run.now_s
        run.skip_ahead()
        pauses.append(round(run.now_s - before_s, 3))
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_retries_end_with_their_number_or_with_the_time_limit() -> None:
    by_number = OutboxRun(retries_max=1)
    request = by_number.add(1, queue=A[0])
    by_number.send()
    by_number.settle(request, Outcome.RETRY)
    assert by_number.box.find_failed() == []
    by_number.skip_ahead()
    by_number.send()
    by_number.settle(request, Outcome.RETRY, "busy")
    assert by_number.box.find_failed() == [request]
    assert str(request.error) == "busy"
    by_time = OutboxRun(timeout_s=0.1)
    request = by_time.add(1, queue=A[0])
    by_time.send()
    by_time.now_s += 0.06
    by_time.settle(request, Outcome.RETRY)
    assert by_time.box.find_failed() == [request]


def test_an_attempt_has_most_of_the_time_limit_and_time_in_which_nobody_watched_does_not_count(run: OutboxRun) -> None:
    request = run.add(1)
    run.send()
    assert request.limit is not None
    assert request.limit.deadline_s == 110.0
    assert request.attempt_until_s == 106.0
    run.box.forgive(3.0)
    assert (request.attempt_until_s, request.limit.deadline_s) == (109.0, 113.0)
    run.now_s = 109.0
    run.settle(request, Outcome.LOST)
    run.skip_ahead()
    run.send()
    assert request.attempt_until_s == 113.0


@pytest.mark.parametrize("queue", [None, A[0]])
def test_time_in_which_nobody_watched_does_not_count_for_a_request_that_pauses(
    run: OutboxRun, queue: MessageQueue | None
) -> None:
    request = run.add(1, queue=queue)
    run.send()
    run.settle(request, Outcome.BUSY)
    run.now_s += 60.0
    run.box.forgive(60.0)
    assert run.send() == [request]
    assert request.attempt_until_s > run.now_s


def test_a_failed_request_takes_along_what_is_behind_it_in_its_queue(run: OutboxRun) -> None:
    first, second, other = run.add(1, queue=A[0]), run.add(2, queue=A[0]), run.add(3, queue=A[1])
    free = run.add(4)
    run.send()
    run.settle(first, Outcome.REFUSED, "it is forbidden")
    assert str(first.call.error) == "it is forbidden"
    assert second.call.error is first.call.error
    assert (other.call.error, free.call.error) == (None, None)
    run.settle(other, Outcome.STORED)
    run.settle(free, Outcome.STORED)
    assert run.send() == []
    assert run.box.find_next_s() is None


def test_responses_to_a_failed_call_are_ignored(run: OutboxRun) -> None:
    call = SendCall()
    first, second = run.add(1, queue=A[0], call=call), run.add(2, call=call)
    run.send()
    run.settle(first, Outcome.REFUSED)
    run.settle(second, Outcome.STORED)
    assert run.box.find_next_s() is None


@given(st.data())
def test_whatever_happens_each_row_is_stored_and_ordered_queues_keep_their_order(data: st.DataObject) -> None:
    run = OutboxRun(timeout_s=1e9)
    kinds = data.draw(st.lists(st.sampled_from([None, A[0], B[1]]), max_size=8))
    for number, queue in enumerate(kinds):
        run.add(number * 2, number * 2 + 1, queue=queue)
    stored, waiting, steps = list[int](), list[SendRequest](), 0
    while True:
        waiting += run.send()
        if not waiting:
            if run.box.find_next_s() is None:
                break
            run.skip_ahead()
            continue
        steps += 1
        request = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        wrong = [Outcome.RETRY, Outcome.BUSY, Outcome.LOST] if steps < 40 else []
        wrong += [Outcome.ILLEGAL] if request.is_batch else []
        outcome = data.draw(st.sampled_from([Outcome.STORED, *wrong]))
        if outcome is Outcome.STORED:
            stored += request.content.rows
        run.settle(request, outcome)
    assert sorted(stored) == list(range(2 * len(kinds)))
    for queue in (A[0], B[1]):
        own = [row for number, kind in enumerate(kinds) if kind == queue for row in (number * 2, number * 2 + 1)]
        assert [row for row in stored if row in own] == own


def lose_until_failed(run: OutboxRun, request: SendRequest, outcome: Outcome) -> float:
    """Lets each attempt end alike. Returns after how many seconds time was up."""
    begun_s = run.now_s
    while not run.box.find_failed():
        for sent in run.send():
            run.settle(sent, outcome)
        if not run.box.find_failed():
            run.skip_ahead()
    return run.now_s - begun_s


@pytest.mark.parametrize(("outcome", "limit_s"), [(Outcome.LOST, 60.0), (Outcome.RETRY, 10.0), (Outcome.BUSY, 10.0)])
def test_only_brokers_that_are_away_are_waited_for_longer(outcome: Outcome, limit_s: float) -> None:
    run = OutboxRun(away_s=60.0)
    waited_s = lose_until_failed(run, run.add(1, queues=A), outcome)
    assert limit_s - 2 < waited_s <= limit_s


def test_without_a_limit_for_brokers_that_are_away_a_lost_one_gets_that_of_a_request() -> None:
    run = OutboxRun()
    assert 8 < lose_until_failed(run, run.add(1, queues=A), Outcome.LOST) <= 10


def test_a_broker_that_comes_back_busy_has_the_time_of_a_request_again() -> None:
    run = OutboxRun(away_s=60.0)
    request = run.add(1, queues=A)
    while run.now_s < 130:
        for sent in run.send():
            run.settle(sent, Outcome.LOST)
        run.skip_ahead()
    for sent in run.send():
        run.settle(sent, Outcome.BUSY)
    assert request.limit is not None
    assert request.limit.deadline_s > run.now_s
    assert run.box.find_failed() == []
