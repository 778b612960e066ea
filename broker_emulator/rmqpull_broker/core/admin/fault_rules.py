"""Fault rules: which of the next calls go wrong, and how. Knows calls by name, client and queues, nothing of gRPC.

A call is struck when it comes in, by the oldest rule that fits it and is not used up: by one before its command runs,
and by one after (``FaultRule.after``), which leaves the command done and only spoils its answer. A command that is
refused has nothing to spoil.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.core.errors import BadRequest, TooManyRequests

RULES_MAX = 1_000

DELAY_MS_MAX = 24 * 3_600_000


class FaultAction(enum.Enum):
    """What happens to a call."""

    FAIL = "fail"
    """It is answered with a code and a sentence."""
    DELAY = "delay"
    """It goes on after a time."""
    DROP = "drop"
    """It is never answered: the caller's deadline passes."""
    DISCONNECT = "disconnect"
    """It ends with gRPC's UNAVAILABLE and without an answer, as when the connection is cut."""
    HOLD = "hold"
    """It goes on when its rule is released."""


class Target(NamedTuple):
    """What a call is about, as far as its request says: None is what it leaves open."""

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None


class Call(NamedTuple):
    """A call that comes in. ``rpc`` is the method's name without its service. An endless one is a conversation, as
    Telemetry is: it has no answer that could be lost.
    """

    rpc: str
    client_id: str
    targets: Sequence[Target] = ()
    is_endless: bool = False


@dataclass(frozen=True)
class FaultRule:
    """Strikes the next ``times`` calls of ``rpc`` (``*``: of any), or all of them when None, that are of ``client_id``
    and about the queue described by ``topic``, ``broker_name`` and ``queue_id``, each of which may be left open.

    A call about many queues is struck when one of them fits. Sends have no queue yet when they come in, and calls that
    name no broker fit any. ``code`` and ``message`` belong to FAIL, ``delay_ms`` to DELAY.
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

    def check(self) -> None:
        """Raises BadRequest for a rule that could never strike, or not as it says."""
        if self.times is not None and self.times < 1:
            raise BadRequest(f"a fault rule strikes at least 1 call, not {self.times}; leave it open for all of them")
        if not 0 <= self.delay_ms <= DELAY_MS_MAX or (self.action is FaultAction.DELAY) != (self.delay_ms > 0):
            raise BadRequest(
                f"a delay takes 1 to {DELAY_MS_MAX} ms and any other fault none: "
                f"{self.action.value} was given {self.delay_ms} ms"
            )
        if self.topic is None and (self.broker_name, self.queue_id) != (None, None):
            raise BadRequest("a fault rule that names a broker or a queue id names the topic too")

    def fits(self, call: Call) -> bool:
        """Whether a call is one of those that the rule means."""
        return (
            self.rpc in ("*", call.rpc)
            and self.client_id in (None, call.client_id)
            and not (self.after and call.is_endless)
            and (self.topic is None or any(self._fits_target(target) for target in call.targets))
        )

    def _fits_target(self, target: Target) -> bool:
        return (
            target.topic == self.topic
            and (self.broker_name is None or target.broker_name in (None, self.broker_name))
            and self.queue_id in (None, target.queue_id)
        )


class Strike(NamedTuple):
    """A rule that struck, under its id."""

    rule_id: int
    rule: FaultRule


class Strikes(NamedTuple):
    """What happens to one call: before its command runs, and after."""

    before: Strike | None = None
    after: Strike | None = None


UNHARMED = Strikes()


class FaultReport(NamedTuple):
    """A rule, how many calls it has struck, and how many it still will: None means all that come."""

    rule_id: int
    rule: FaultRule
    struck: int
    left: int | None


class FaultRules:
    """The rules in the order of their creation. Ids count from 1 and are used once."""

    def __init__(self) -> None:
        self._reports: dict[int, FaultReport] = {}
        self._next_id = 1
        self._is_armed = False

    @property
    def is_armed(self) -> bool:
        """Whether any rule can strike: while none can, nobody need look into requests."""
        return self._is_armed

    def add(self, rule: FaultRule) -> int:
        """Adds a rule and gives its id. At ``RULES_MAX`` the oldest rule that is used up makes room.

        Raises BadRequest for a rule that makes no sense, and TooManyRequests when no rule is used up.
        """
        rule.check()
        if len(self._reports) >= RULES_MAX:
            used_up = next((report.rule_id for report in self._reports.values() if report.left == 0), None)
            if used_up is None:
                raise TooManyRequests(f"there are {RULES_MAX} fault rules already; remove some")
            del self._reports[used_up]
        rule_id, self._next_id = self._next_id, self._next_id + 1
        self._reports[rule_id] = FaultReport(rule_id, rule, 0, rule.times)
        self._is_armed = True
        return rule_id

    def strike(self, call: Call) -> Strikes:
        """Lets the rules strike a call that comes in, and counts it."""
        return Strikes(self._strike(call, after=False), self._strike(call, after=True))

    def _strike(self, call: Call, *, after: bool) -> Strike | None:
        for rule_id, rule, struck, left in self._reports.values():
            if left != 0 and rule.after is after and rule.fits(call):
                self._reports[rule_id] = FaultReport(rule_id, rule, struck + 1, None if left is None else left - 1)
                self._look_again()
                return Strike(rule_id, rule)
        return None

    def remove(self, rule_id: int) -> None:
        """Forgets a rule. Raises BadRequest for an unknown one."""
        del self._reports[self.report(rule_id).rule_id]
        self._look_again()

    def report(self, rule_id: int) -> FaultReport:
        """One rule. Raises BadRequest for an unknown one."""
        try:
            return self._reports[rule_id]
        except KeyError:
            raise BadRequest(f"there is no fault rule {rule_id}") from None

    def _look_again(self) -> None:
        self._is_armed = any(report.left != 0 for report in self._reports.values())

    def reports(self) -> list[FaultReport]:
        """Every rule that was not removed, in the order of creation."""
        return list(self._reports.values())
