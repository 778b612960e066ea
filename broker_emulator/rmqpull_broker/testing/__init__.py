"""Brokers for tests: :func:`running_broker` in the test's own process, :class:`BrokerProcess` as a process of its own.

The broker itself (gRPC, Arrow) is loaded when something of the embedded one is first asked for, so that a program which
only starts processes need not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqpull_broker.testing.process import BrokerProcess, BrokerProcessError

if TYPE_CHECKING:
    from rmqpull_broker.testing.embedded import BrokerClock, BrokerFaults, RunningBroker, Topics, running_broker

__all__ = [
    "BrokerClock",
    "BrokerFaults",
    "BrokerProcess",
    "BrokerProcessError",
    "RunningBroker",
    "Topics",
    "running_broker",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rmqpull_broker.testing import embedded

    return getattr(embedded, name)
