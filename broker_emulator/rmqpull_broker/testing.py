"""A broker inside a test's own process: ``with running_broker(topics={"orders": 8}) as broker: …``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from rmqpull_broker.assembly import new_topics, open_broker
from rmqpull_broker.config import Address, BrokerConfig, TopicSpec, parse_extensions
from rmqpull_broker.core.model import TopicType


@dataclass(frozen=True)
class RunningBroker:
    """Where a broker that serves in this process is reached."""

    endpoints: str


@contextmanager
def running_broker(
    topics: Mapping[str, int] | None = None, *, data_dir: str | None = None, extensions: str = "columns,admin"
) -> Iterator[RunningBroker]:
    """Serves on a free loopback port, on a thread of its own, until the block ends.

    ``topics`` gives NORMAL topics by name with their numbers of queues; without ``data_dir`` nothing touches the disk.
    Raises what ``serve`` would say in a sentence: SettingError, BrokerError, CorruptLog or OSError.
    """
    specs = [TopicSpec(name, queues, TopicType.NORMAL) for name, queues in (topics or {}).items()]
    config = BrokerConfig(Address("127.0.0.1", 0), specs, data_dir, parse_extensions(extensions))
    started: Future[tuple[RunningBroker, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_run(config, started)), name="rmqpull-broker", daemon=True)
    thread.start()
    broker, loop, stopped = started.result()
    try:
        yield broker
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()


async def _run(
    config: BrokerConfig, started: Future[tuple[RunningBroker, asyncio.AbstractEventLoop, asyncio.Event]]
) -> None:
    stopped = asyncio.Event()
    try:
        server = open_broker(config)
        try:
            port = await server.start(*config.listen, new_topics(config))
            broker = RunningBroker(f"{config.listen.host}:{port}")
            started.set_result((broker, asyncio.get_running_loop(), stopped))
            await stopped.wait()
        finally:
            await server.stop()
    except Exception as error:
        if started.done():
            raise
        started.set_exception(error)  # raised again where the broker was asked for
