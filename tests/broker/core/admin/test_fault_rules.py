"""Fault rules: which calls they match, how often, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.core.admin import fault_rules
from rmqpull_broker.core.admin.fault_rules import ArrivingCall, FaultAction, FaultRule, FaultRules, Target
from rmqpull_broker.core.errors import BadRequest, TooManyRequests

PULL = ArrivingCall("PullMessage", "tester", (Target("orders", "broker-a", 1),), group="readers")
SEND = ArrivingCall("SendMessage", "tester", (Target("orders"),))
MANY = ArrivingCall("PullColumns", "", (Target("orders", "broker-a", 0), Target("bills", "broker-b", 3)))


def fail(rpc: str = "PullMessage", **options: Any) -> FaultRule:
    return FaultRule(rpc, FaultAction.FAIL, **options)


def affected_by(rules: FaultRules, call: ArrivingCall) -> int | None:
    """Returns the id of the rule that acts before the command of a call."""
    fault = rules.match(call).before
    return None if fault is None else fault.rule_id


@pytest.mark.parametrize(
    ("rule", "call", "fits"),
    [
        (fail(), PULL, True),
        (fail(), SEND, False),
        (fail("*"), PULL, True),
        (fail("*"), SEND, True),
        (fail(client_id="tester"), PULL, True),
        (fail(client_id="another"), PULL, False),
        (fail(group="readers"), PULL, True),
        (fail(group="another"), PULL, False),
        (fail("*", group="readers"), SEND, False),
        (fail(topic="orders"), PULL, True),
        (fail(topic="bills"), PULL, False),
        (fail(topic="orders", queue_id=1), PULL, True),
        (fail(topic="orders", queue_id=0), PULL, False),
        (fail(topic="orders", broker_name="broker-a", queue_id=1), PULL, True),
        (fail(topic="orders", broker_name="broker-b", queue_id=1), PULL, False),
        (fail("SendMessage", topic="orders"), SEND, True),
        (fail("SendMessage", topic="orders", broker_name="broker-a"), SEND, True),  # a send names no broker
        (fail("SendMessage", topic="orders", queue_id=0), SEND, False),  # nor a queue
        (fail("PullColumns", topic="bills", broker_name="broker-b", queue_id=3), MANY, True),
        (fail("PullColumns", topic="orders", queue_id=3), MANY, False),  # no single queue is both
        (fail("PullColumns", topic="orders"), ArrivingCall("PullColumns", "tester"), False),
    ],
)
def test_a_rule_matches_the_calls_that_it_describes(rule: FaultRule, call: ArrivingCall, fits: bool) -> None:
    rules = FaultRules()
    rule_id = rules.add(rule)
    assert affected_by(rules, call) == (rule_id if fits else None)


def test_the_next_calls_are_counted_down_and_then_let_through() -> None:
    rules = FaultRules()
    rule_id = rules.add(fail(times=2))
    assert [affected_by(rules, call) for call in (PULL, SEND, PULL, PULL)] == [rule_id, None, rule_id, None]
    assert [(report.injected, report.left) for report in rules.reports()] == [(2, 0)]


def test_a_rule_without_a_number_matches_for_ever() -> None:
    rules = FaultRules()
    rule_id = rules.add(fail(times=None))
    assert {affected_by(rules, PULL) for _ in range(100)} == {rule_id}
    assert rules.report(rule_id)[2:] == (100, None)


def test_the_oldest_rule_comes_first_and_one_is_enough() -> None:
    rules = FaultRules()
    first, second = rules.add(fail(times=1)), rules.add(FaultRule("*", FaultAction.DROP, times=1))
    assert [affected_by(rules, PULL) for _ in range(3)] == [first, second, None]


def test_a_call_may_be_affected_before_its_command_and_after() -> None:
    rules = FaultRules()
    after = rules.add(FaultRule("PullMessage", FaultAction.DROP, after=True))
    before = rules.add(FaultRule("PullMessage", FaultAction.DELAY, delay_ms=5))
    faults = rules.match(PULL)
    assert faults.before is not None
    assert faults.after is not None
    assert (faults.before.rule_id, faults.after.rule_id) == (before, after)
    assert rules.match(PULL) == (None, None)


def test_a_call_without_end_has_no_answer_to_lose() -> None:
    rules = FaultRules()
    rules.add(FaultRule("*", FaultAction.DROP, after=True))
    assert rules.match(ArrivingCall("Telemetry", "tester", is_endless=True)) == (None, None)
    assert rules.match(PULL).after is not None


def test_rules_are_armed_while_one_has_calls_left() -> None:
    rules = FaultRules()
    armed = [rules.is_armed]
    used, removed = rules.add(fail()), rules.add(fail("SendMessage"))
    armed.append(rules.is_armed)
    affected_by(rules, PULL)
    armed.append(rules.is_armed)
    rules.remove(removed)
    armed.append(rules.is_armed)
    assert armed == [False, True, True, False]
    assert [report.rule_id for report in rules.reports()] == [used]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (fail(times=0), "takes 1 call or more, not 0"),
        (fail(delay_ms=5), "fail has 5 ms"),
        (FaultRule("*", FaultAction.DELAY), "delay has 0 ms"),
        (FaultRule("*", FaultAction.DELAY, delay_ms=-1), "delay has -1 ms"),
        (FaultRule("*", FaultAction.DELAY, delay_ms=fault_rules.DELAY_MS_MAX + 1), "needs a delay of 1 to 86400000 ms"),
        (fail(queue_id=0), "must name the topic too"),
        (fail(broker_name="broker-a"), "must name the topic too"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: FaultRule, sentence: str) -> None:
    rules = FaultRules()
    with pytest.raises(BadRequest, match=sentence):
        rules.add(rule)
    assert rules.reports() == []


def test_an_unknown_rule_is_named() -> None:
    rules = FaultRules()
    with pytest.raises(BadRequest, match="no fault rule 7"):
        rules.report(7)
    with pytest.raises(BadRequest, match="no fault rule 7"):
        rules.remove(7)


def test_used_up_rules_make_room_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_rules, "RULES_MAX", 2)
    rules = FaultRules()
    waits, used = rules.add(fail("SendMessage")), rules.add(fail())
    with pytest.raises(TooManyRequests):
        rules.add(fail())
    affected_by(rules, PULL)
    newest = rules.add(fail())
    assert [report.rule_id for report in rules.reports()] == [waits, newest]
    assert newest > used
