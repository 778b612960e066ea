"""Fault rules applied to calls: which queues a request is about, and the waiting of those that are kept back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from rmqpull_broker.core.admin.fault_rules import (
    NO_FAULTS,
    Call,
    CallFaults,
    Fault,
    FaultAction,
    FaultReport,
    FaultRule,
    FaultRules,
    Target,
)
from rmqpull_broker.core.errors import BadRequest, TooManyRequests
from rmqpull_broker.server.clock import Clock
from rmqpull_broker.server.wire.codec import name_of
from rmqpull_broker.server.wire.status import CODE_NAMES, InjectedFailure
from rmqpull_proto import rpc

CALLS_KEPT_MAX = 10_000
"""Calls that are delayed, dropped or held at the same time."""

_RPCS = frozenset({*rpc.MESSAGING.methods, *rpc.COLUMNS.methods, *rpc.STAGES.methods})
# Who makes the rules must be able to take them back: the calls of an administrator are spared.

_logger = logging.getLogger(__name__)


class Disconnected(Exception):
    """The call is to end without an answer; the text says why."""


class Faults:
    """The broker's fault rules at work. All methods belong to the event loop; delays follow ``clock``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rules = FaultRules()
        self._kept: dict[asyncio.Future[None], Fault] = {}
        self._is_closed = False

    # --- for whoever makes the rules -----------------------------------------------------------------------------

    def add(self, rule: FaultRule) -> int:
        """Adds a rule and gives its id.

        Raises BadRequest for a rule that makes no sense, and TooManyRequests when there are too many.
        """
        if rule.rpc != "*" and rule.rpc not in _RPCS:
            raise BadRequest(f"no RPC {rule.rpc!r} can go wrong: expected * or one of {', '.join(sorted(_RPCS))}")
        if rule.code not in CODE_NAMES:
            raise BadRequest(f"{rule.code!r} is no code of apache.rocketmq.v2, as TOO_MANY_REQUESTS is")
        return self._rules.add(rule)

    def release(self, rule_id: int, calls: int | None = None) -> None:
        """Lets go on whom a rule holds or delays, the oldest ``calls`` of them or all; the rule stays as it is.

        Dropped calls stay dropped. Raises BadRequest for an unknown rule.
        """
        self._rules.report(rule_id)
        waiting = [freed for freed, strike in self._kept.items() if strike.rule_id == rule_id and not freed.done()]
        for freed in waiting[:calls]:
            if self._kept[freed].rule.action is not FaultAction.DROP:
                freed.set_result(None)

    def remove(self, rule_id: int) -> None:
        """Releases whom a rule keeps back, and forgets it. Raises BadRequest for an unknown one."""
        self.release(rule_id)
        self._rules.remove(rule_id)

    def clear(self) -> None:
        """Removes every rule."""
        for report in self._rules.reports():
            self.remove(report.rule_id)

    def report(self, rule_id: int) -> FaultReport:
        """One rule. Raises BadRequest for an unknown one."""
        return self._rules.report(rule_id)

    def reports(self) -> list[FaultReport]:
        """Every rule with the number of calls that it has struck, in the order of creation."""
        return self._rules.reports()

    def calls_kept(self, rule_id: int) -> int:
        """How many calls a rule delays, drops or holds now."""
        return sum(strike.rule_id == rule_id for strike in self._kept.values())

    # --- for the way in and out of the handlers ------------------------------------------------------------------

    def strikes(self, rpc_name: str, client_id: str, request: Any | None) -> CallFaults:
        """What is to happen to a call that comes in; ``request`` is None when requests are streamed."""
        if not self._rules.is_armed or rpc_name not in _RPCS:
            return NO_FAULTS
        targets = () if request is None else tuple(dict.fromkeys(targets_of(request)))
        return self._rules.match(Call(rpc_name, client_id, targets, is_endless=request is None))

    async def suffer(self, strike: Fault) -> None:
        """Returns when the call may go on.

        Raises InjectedFailure or Disconnected when it may not, and TooManyRequests when too many calls wait.
        """
        rule_id, rule = strike
        _logger.debug("fault rule %d struck: %s", rule_id, rule.action.value)
        if rule.action is FaultAction.FAIL:
            raise InjectedFailure(rule.code, rule.message or f"fault rule {rule_id} says so")
        if rule.action is FaultAction.DISCONNECT or self._is_closed:
            raise Disconnected(f"fault rule {rule_id} cut the connection")
        if len(self._kept) >= CALLS_KEPT_MAX:
            raise TooManyRequests(f"fault rules keep {CALLS_KEPT_MAX} calls already")
        await self._keep(strike)

    async def _keep(self, strike: Fault) -> None:
        freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._kept[freed] = strike
        timer = None
        if strike.rule.action is FaultAction.DELAY:
            until_ms = self._clock.passing_ms() + strike.rule.delay_ms
            timer = self._clock.call_at(until_ms, lambda: None if freed.done() else freed.set_result(None))
        try:
            await freed
        finally:
            del self._kept[freed]
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """Disconnects every call that is kept back, and from now on keeps none."""
        self._is_closed = True
        for freed in self._kept:
            if not freed.done():
                freed.set_exception(Disconnected("the broker stops"))


def targets_of(message: Any) -> Iterator[Target]:
    """The topics and queues that a request names, wherever it does so, in the forms of both protocols."""
    kind = message.DESCRIPTOR.full_name
    if kind == "apache.rocketmq.v2.MessageQueue":
        yield Target(name_of(message.topic), message.broker.name or None, message.id)
        return
    if kind == "rmqpull.v1.Queue":
        yield Target(message.topic, message.broker_name or None, message.queue_id)
        return
    for field, value in message.ListFields():
        if field.name == "topic":
            yield Target(value if field.message_type is None else name_of(value))
        elif isinstance(value, Message):
            yield from targets_of(value)
        elif field.message_type is not None:
            # A map of strings iterates over its keys.
            for part in value:
                if isinstance(part, Message):
                    yield from targets_of(part)
