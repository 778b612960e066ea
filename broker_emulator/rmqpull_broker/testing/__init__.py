"""Brokers for tests: :func:`running_broker` in the process of the test, :class:`BrokerProcess` in another process.

The broker itself, with gRPC and Arrow, is imported when the embedded one is first used. A program that only starts
processes does not import it.
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
