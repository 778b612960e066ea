"""Fault rules at work: injects faults into calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from rmqpull_broker.core.admin.fault_rules import (
    ArrivingCall,
    CallFaults,
    Fault,
    FaultAction,
    FaultReport,
    FaultRule,
    FaultRules,
    InjectedFailure,
    Target,
)
from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.server.clock import Clock

CALLS_WAITING_MAX = 10_000
"""Calls that rules delay, drop or hold at the same time."""

_logger = logging.getLogger(__name__)


class Disconnected(Exception):
    """The call must end without a response; the text says why."""


class Faults:
    """The broker's fault rules. All methods belong to the event loop; delays follow ``clock``.

    ``check_names`` raises BadRequest for a rule with the name of a call or of a code that no protocol has.
    """

    def __init__(self, clock: Clock, check_names: Callable[[FaultRule], None]) -> None:
        self._clock = clock
        self._check_names = check_names
        self._rules = FaultRules()
        self._waiting: dict[asyncio.Future[None], Fault] = {}
        self._is_closed = False

    # --- rules ---------------------------------------------------------------------------------------------------

    def add(self, rule: FaultRule) -> int:
        """Adds a rule and returns its id.

        Raises BadRequest for a rule that contradicts itself, and TooManyRequests when there are too many.
        """
        self._check_names(rule)
        return self._rules.add(rule)

    def release(self, rule_id: int, calls: int | None = None) -> None:
        """Resumes the calls that a rule holds or delays: the oldest ``calls``, or all. The rule stays as it is.

        Dropped calls stay dropped. Raises BadRequest for an unknown rule.
        """
        self._rules.report(rule_id)
        waiting = [future for future, fault in self._waiting.items() if fault.rule_id == rule_id and not future.done()]
        for future in waiting[:calls]:
            if self._waiting[future].rule.action is not FaultAction.DROP:
                future.set_result(None)

    def remove(self, rule_id: int) -> None:
        """Removes a rule, and resumes the calls that it holds or delays. Raises BadRequest for an unknown rule."""
        self.release(rule_id)
        self._rules.remove(rule_id)

    def clear(self) -> None:
        """Removes every rule."""
        for report in self._rules.reports():
            self.remove(report.rule_id)

    def report(self, rule_id: int) -> FaultReport:
        """Finds one rule. Raises BadRequest for an unknown one."""
        return self._rules.report(rule_id)

    def reports(self) -> list[FaultReport]:
        """Lists all rules with the number of their faults so far, in the order of creation."""
        return self._rules.reports()

    def count_waiting(self, rule_id: int) -> int:
        """Returns how many calls a rule delays, drops or holds now."""
        return sum(fault.rule_id == rule_id for fault in self._waiting.values())

    # --- calls ---------------------------------------------------------------------------------------------------

    @property
    def is_armed(self) -> bool:
        """Whether any rule has calls left."""
        return self._rules.is_armed

    def match(
        self, name: str, client_id: str, targets: Iterable[Target], group: str = "", *, is_endless: bool = False
    ) -> CallFaults:
        """Finds and counts the faults of a call that names these targets and this group.

        A call ``is_endless`` if it is a stream of requests.
        """
        return self._rules.match(ArrivingCall(name, client_id, tuple(targets), is_endless=is_endless, group=group))

    async def inject(self, fault: Fault) -> None:
        """Returns when the call may continue.

        Raises InjectedFailure or Disconnected when it must not, and TooManyRequests when too many calls wait.
        """
        rule_id, rule = fault
        _logger.debug("fault rule %d injects %s", rule_id, rule.action.value)
        if rule.action is FaultAction.FAIL:
            raise InjectedFailure(rule.code, rule.message or f"injected by fault rule {rule_id}")
        if rule.action is FaultAction.DISCONNECT or self._is_closed:
            raise Disconnected(f"fault rule {rule_id} cut the connection")
        if len(self._waiting) >= CALLS_WAITING_MAX:
            raise TooManyRequests(f"{CALLS_WAITING_MAX} calls already wait for fault rules")
        await self._wait(fault)

    async def _wait(self, fault: Fault) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = fault
        timer = None
        if fault.rule.action is FaultAction.DELAY:
            until_ms = self._clock.passing_ms() + fault.rule.delay_ms
            timer = self._clock.call_at(until_ms, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            del self._waiting[future]
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """Disconnects all waiting calls, and every further one that would have to wait."""
        self._is_closed = True
        for future in self._waiting:
            if not future.done():
                future.set_exception(Disconnected("the broker is stopping"))
