"""Renewer on the event loop: gives clients time for their messages until they acknowledge them (rules 5.12.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.popping.receipts import DeliveredMessage, Receipt
from rmqpull_broker.core.popping.renewals import (
    CHECK_INTERVAL_MS,
    FIRST_INVISIBLE_MS,
    RELEASED_MS,
    RENEWALS_MAX,
    Holder,
    Renewal,
    Renewals,
    Step,
    plan_step,
)
from rmqpull_broker.server.clock import Alarm, Clock

CHANGES_MAX = 250
"""Receipts that one command renews, so that other commands can run in between."""

_logger = logging.getLogger(__name__)


class Pops(Protocol):
    """The methods of pops that renewals need."""

    def is_in_flight(self, message: DeliveredMessage) -> bool:
        """Whether a message is still in flight by the delivery that its receipt names."""

    async def change_invisible_times(self, messages: Sequence[DeliveredMessage], invisible_ms: int) -> list[Receipt]:
        """Makes messages visible again ``invisible_ms`` from now. Returns their new receipts. Raises BrokerError."""


class Renewer:
    """Keeps the receipts of clients that asked for it, and renews them. All methods belong to the event loop.

    Arguments: pops, which change invisible times; the clock; whether a client is still a member of its group; how to
    find a group.
    """

    def __init__(
        self,
        pops: Pops,
        clock: Clock,
        is_member: Callable[[Holder], bool],
        find_group: Callable[[str], GroupConfig | None],
    ) -> None:
        self._pops = pops
        self._find_group = find_group
        self._clock = clock
        self._is_member = is_member
        self._renewals = Renewals()
        self._in_flight: dict[Renewal, asyncio.Future[None]] = {}
        self._alarm = Alarm(clock, self._check)
        self._must_check = False

    @property
    def kept_count(self) -> int:
        """How many receipts are kept."""
        return len(self._renewals)

    @property
    def is_busy(self) -> bool:
        """Whether receipts are checked now."""
        return self._alarm.is_running

    # --- what clients do ----------------------------------------------------------------------------------------------

    def keep(self, holder: Holder, message_id: str, topic: str, receipt: Receipt, reconsume_times: int) -> None:
        """Keeps the receipt of a message that a client is about to get from ``topic``."""
        if self._renewals.keep(holder, message_id, topic, receipt, reconsume_times, self._find_ahead_ms()) is None:
            _logger.info(
                "%d receipts are kept, the max: a message of %s is redelivered after %d s unless it is acknowledged",
                RENEWALS_MAX,
                holder.client_id,
                FIRST_INVISIBLE_MS // 1000,
            )
        self._set_alarm()

    async def take(self, holder: Holder, message_id: str, receipt: Receipt) -> Receipt:
        """Forgets a message that its client ends, and returns its newest receipt.

        That is ``receipt`` itself if none is kept, as for another client's message.
        """
        renewal = self._renewals.take(holder, message_id, receipt)
        if renewal is None:
            return receipt
        settled = self._in_flight.get(renewal)
        if settled is not None:
            await asyncio.shield(settled)
        return renewal.receipt

    def forget(self, holder: Holder, message_id: str, receipt: Receipt) -> None:
        """Forgets a delivery that its client has not got. A newer delivery of the same message stays."""
        self._renewals.drop(holder, message_id, receipt)

    def release_gone(self) -> None:
        """Releases the messages of clients that have left. The check every 5 s does so too."""
        if len(self._renewals):
            self._must_check = True
            self._alarm.wake()

    # --- what the clock does ------------------------------------------------------------------------------------------

    def _find_ahead_ms(self) -> int:
        """Returns by how much the clock of renewals is ahead of that of receipts, which may have been set."""
        return self._clock.steady_ms() - self._clock.wall_ms()

    def _set_alarm(self) -> None:
        """Checks at the next multiple of the interval, while there is something to check."""
        if len(self._renewals):
            self._alarm.set((self._clock.passing_ms() // CHECK_INTERVAL_MS + 1) * CHECK_INTERVAL_MS)

    async def _check(self) -> None:
        self._must_check = True
        try:
            while self._must_check:
                self._must_check = False
                await self._release(self._renewals.take_all(lambda holder: not self._is_member(holder)))
                now_ms = self._clock.steady_ms()
                while due := self._renewals.list_due(now_ms, CHANGES_MAX):
                    await self._renew_due(due, now_ms)
        finally:
            self._set_alarm()

    async def _renew_due(self, due: Sequence[Renewal], now_ms: int) -> None:
        by_step: dict[Step, list[Renewal]] = {}
        for renewal in due:
            name = renewal.holder.group
            step = None
            if self._pops.is_in_flight(_find_message(renewal)):
                step = plan_step(renewal, self._find_group(name) or GroupConfig(name), now_ms)
            if step is None:
                _logger.info("a message of %s is no longer renewed: %s", renewal.holder.client_id, renewal.receipt)
                self._renewals.forget(renewal)
            else:
                by_step.setdefault(step, []).append(renewal)
        settled = asyncio.get_running_loop().create_future()
        self._in_flight.update(dict.fromkeys((renewal for some in by_step.values() for renewal in some), settled))
        try:
            for step, renewals in by_step.items():
                await self._renew(step, [renewal for renewal in renewals if renewal.is_kept], now_ms)
        finally:
            self._in_flight.clear()
            settled.set_result(None)

    async def _renew(self, step: Step, renewals: Sequence[Renewal], now_ms: int) -> None:
        try:
            receipts = await self._change(renewals, step.invisible_ms)
        except BrokerError as error:
            _logger.warning("cannot renew %d receipts, will retry: %s", len(renewals), error)
            for renewal in renewals:
                self._renewals.fail(renewal, now_ms)
        else:
            for renewal, receipt in zip(renewals, receipts, strict=True):
                self._renewals.renew(renewal, receipt, self._find_ahead_ms())
        if step.is_last:
            for renewal in renewals:
                self._renewals.forget(renewal)

    async def _release(self, renewals: Sequence[Renewal]) -> None:
        """Makes messages whose clients have left visible soon."""
        for first in range(0, len(renewals), CHANGES_MAX):
            some = renewals[first : first + CHANGES_MAX]
            try:
                await self._change(some, RELEASED_MS)
            except BrokerError as error:
                _logger.warning(
                    "%d messages of clients that left become visible again only after their invisible time: %s",
                    len(some),
                    error,
                )

    async def _change(self, renewals: Sequence[Renewal], invisible_ms: int) -> list[Receipt]:
        if not renewals:
            return []
        return await self._pops.change_invisible_times([_find_message(each) for each in renewals], invisible_ms)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stops renewing, and releases all messages, as Apache's proxy does when it stops."""
        await self._alarm.finish()
        await self._release(self._renewals.take_all(lambda _: True))


def _find_message(renewal: Renewal) -> DeliveredMessage:
    group = renewal.holder.group
    return DeliveredMessage(group, renewal.receipt.find_queue(group, renewal.topic), renewal.receipt)
