"""Brokers that run as processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from rmqpull_broker.testing import BrokerProcess, Topics

StartBroker = Callable[..., BrokerProcess]


@contextmanager
def run_brokers() -> Iterator[StartBroker]:
    with ExitStack() as started:

        def start(topics: Topics, data_dir: Path | None = None, extensions: str = "columns") -> BrokerProcess:
            broker = BrokerProcess(topics, data_dir=data_dir, extensions=extensions)
            started.callback(broker.kill)
            broker.start()
            return broker

        yield start


class StartProcess(Protocol):
    def __call__(self, *arguments: str, listen: str = ..., data_dir: Path | None = ...) -> BrokerProcess: ...


@contextmanager
def run_processes() -> Iterator[StartProcess]:
    """Starts brokers as processes, on a free port; what still runs in the end is killed."""
    with ExitStack() as processes:

        def start(*arguments: str, listen: str = "127.0.0.1:0", data_dir: Path | None = None) -> BrokerProcess:
            process = BrokerProcess(arguments=arguments, listen=listen, data_dir=data_dir)
            processes.callback(process.kill)
            process.start()
            return process

        yield start
