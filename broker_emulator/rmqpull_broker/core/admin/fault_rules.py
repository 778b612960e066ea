"""Fault rules: which of the next calls go wrong, and how. Knows calls by name, client and queues, and no protocol.

Faults are chosen when a call arrives, each by the oldest rule that matches and is not used up: at most one before the
command runs, and at most one after it (``FaultRule.after``), which only affects the response. A command that is refused
gets no fault after it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.core.errors import BadRequest, TooManyRequests

RULES_MAX = 1_000

DELAY_MS_MAX = 24 * 3_600_000


class InjectedFailure(Exception):
    """A fault rule injects a response with this code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class FaultAction(enum.Enum):
    """What a fault does to a call."""

    FAIL = "fail"
    """The response is an error code with a message."""
    DELAY = "delay"
    """The call continues after a delay."""
    DROP = "drop"
    """There is no response: the caller's deadline passes."""
    DISCONNECT = "disconnect"
    """The call ends without a response, as when the connection breaks: UNAVAILABLE in gRPC, closed in remoting."""
    HOLD = "hold"
    """The call continues when the rule is released."""


class Target(NamedTuple):
    """The queue that a request names. None stands for a part that the request leaves open."""

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None


class ArrivingCall(NamedTuple):
    """A call that arrives. ``rpc`` is the method's name without its service.

    ``is_endless`` is set for streams such as Telemetry, which have no single response that could be lost. ``group`` is
    the consumer group that the request names, if it names one.
    """

    rpc: str
    client_id: str
    targets: Sequence[Target] = ()
    is_endless: bool = False
    group: str = ""


@dataclass(frozen=True)
class FaultRule:
    """Injects a fault into the next ``times`` calls that match, or into all of them when ``times`` is None.

    ``rpc`` is the method to match, or ``*`` for any. ``client_id``, ``group``, ``topic``, ``broker_name`` and
    ``queue_id`` match anything when they are None. A call that names several queues matches when one of them does.
    Sends name no queue, and a call that names no broker matches any broker. ``code`` and ``message`` belong to FAIL,
    ``delay_ms`` to DELAY.
    """

    rpc: str
    action: FaultAction
    times: int | None = 1
    topic: str | None = None
    broker_name: str | None = None
    queue_id: int | None = None
    client_id: str | None = None
    code: str = "INTERNAL_SERVER_ERROR"
    message: str = ""
    delay_ms: int = 0
    after: bool = False
    group: str | None = None

    def check(self) -> None:
        """Raises BadRequest for a rule that can never match, or that contradicts itself."""
        if self.times is not None and self.times < 1:
            raise BadRequest(f"a fault rule takes 1 call or more, not {self.times}; leave the number out for all")
        if not 0 <= self.delay_ms <= DELAY_MS_MAX or (self.action is FaultAction.DELAY) != (self.delay_ms > 0):
            raise BadRequest(
                f"the action delay needs a delay of 1 to {DELAY_MS_MAX} ms, and no other action takes one: "
                f"{self.action.value} has {self.delay_ms} ms"
            )
        if self.topic is None and (self.broker_name, self.queue_id) != (None, None):
            raise BadRequest("a fault rule that names a broker or a queue id must name the topic too")

    def matches(self, call: ArrivingCall) -> bool:
        """Whether the rule applies to a call."""
        return (
            self.rpc in ("*", call.rpc)
            and self.client_id in (None, call.client_id)
            and self.group in (None, call.group)
            and not (self.after and call.is_endless)
            and (self.topic is None or any(self._matches_target(target) for target in call.targets))
        )

    def _matches_target(self, target: Target) -> bool:
        return (
            target.topic == self.topic
            and (self.broker_name is None or target.broker_name in (None, self.broker_name))
            and self.queue_id in (None, target.queue_id)
        )


class Fault(NamedTuple):
    """A rule to apply to a call, with its id."""

    rule_id: int
    rule: FaultRule


class CallFaults(NamedTuple):
    """The faults of one call: one before its command runs, and one after."""

    before: Fault | None = None
    after: Fault | None = None


NO_FAULTS = CallFaults()


class FaultReport(NamedTuple):
    """A rule, how many faults it has injected, and how many calls it has left: None means all that arrive."""

    rule_id: int
    rule: FaultRule
    injected: int
    left: int | None

    @property
    def struck(self) -> int:
        """The old name of ``injected``, still accepted in this release."""
        return self.injected


class FaultRules:
    """The rules in the order of their creation. Ids count from 1 and are never reused."""

    def __init__(self) -> None:
        self._reports: dict[int, FaultReport] = {}
        self._next_id = 1
        self._is_armed = False

    @property
    def is_armed(self) -> bool:
        """Whether any rule has calls left. If none has, requests need not be parsed for their queues."""
        return self._is_armed

    def add(self, rule: FaultRule) -> int:
        """Adds a rule and returns its id. At ``RULES_MAX`` rules, the oldest rule without calls left is removed.

        Raises BadRequest for a rule that contradicts itself, and TooManyRequests when every rule has calls left.
        """
        rule.check()
        if len(self._reports) >= RULES_MAX:
            without_calls = next((report.rule_id for report in self._reports.values() if report.left == 0), None)
            if without_calls is None:
                raise TooManyRequests(f"there are {RULES_MAX} fault rules already, the max; remove some of them first")
            del self._reports[without_calls]
        rule_id, self._next_id = self._next_id, self._next_id + 1
        self._reports[rule_id] = FaultReport(rule_id, rule, 0, rule.times)
        self._is_armed = True
        return rule_id

    def match(self, call: ArrivingCall) -> CallFaults:
        """Finds the faults of a call that arrives, and counts the call for their rules."""
        return CallFaults(self._match(call, after=False), self._match(call, after=True))

    def _match(self, call: ArrivingCall, *, after: bool) -> Fault | None:
        for rule_id, rule, injected, left in self._reports.values():
            if left != 0 and rule.after is after and rule.matches(call):
                self._reports[rule_id] = FaultReport(rule_id, rule, injected + 1, None if left is None else left - 1)
                self._update_armed()
                return Fault(rule_id, rule)
        return None

    def remove(self, rule_id: int) -> None:
        """Removes a rule. Raises BadRequest for an unknown id."""
        del self._reports[self.report(rule_id).rule_id]
        self._update_armed()

    def report(self, rule_id: int) -> FaultReport:
        """Returns the report of one rule. Raises BadRequest for an unknown id."""
        try:
            return self._reports[rule_id]
        except KeyError:
            raise BadRequest(f"there is no fault rule {rule_id}") from None

    def _update_armed(self) -> None:
        self._is_armed = any(report.left != 0 for report in self._reports.values())

    def reports(self) -> list[FaultReport]:
        """Returns the reports of all rules, in the order of their creation."""
        return list(self._reports.values())
