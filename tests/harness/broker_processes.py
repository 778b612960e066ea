"""Brokers that run as processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from rmqpull_broker.testing import BrokerProcess, Topics


class StartBroker(Protocol):
    """Takes topics, and other arguments of BrokerProcess by name. Without ``extensions`` the broker has columns."""

    def __call__(
        self,
        topics: Topics | None = ...,
        *,
        data_dir: Path | None = ...,
        extensions: str | None = ...,
        arguments: Sequence[str] = ...,
        listen: str = ...,
        remoting: str | None = ...,
    ) -> BrokerProcess: ...


class StartProcess(Protocol):
    """Takes the arguments of a command line."""

    def __call__(self, *arguments: str, listen: str = ..., data_dir: Path | None = ...) -> BrokerProcess: ...


@contextmanager
def run_brokers() -> Iterator[StartBroker]:
    """Yields a function that starts a broker. All of them are killed at the end of the block."""
    with ExitStack() as started:

        def start(topics: Topics | None = None, **options: Any) -> BrokerProcess:
            broker = BrokerProcess(topics, **{"extensions": "columns", **options})
            started.callback(broker.kill)
            broker.start()
            return broker

        yield start


@contextmanager
def run_processes() -> Iterator[StartProcess]:
    """As run_brokers, for tests of the command line."""
    with run_brokers() as start:
        yield lambda *arguments, **options: start(arguments=arguments, extensions=None, **options)
