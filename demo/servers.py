"""The RocketMQ server that the flights go through. The steps of the demo are the same for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from demo import flights_data
from demo.run_folder import RunFolder
from rmqpull_broker.testing import BrokerProcess
from rmqpull_client.connection import Connection
from rmqpull_client.transports.choice import connect

TOPIC = "flights"
QUEUES = 8
REQUEST_TIMEOUT_MS = 30_000


@dataclass(frozen=True)
class QueueOffsets:
    """By queue id: where each queue ends, and how far a group has come. None: the group has no offset there."""

    max_offsets: Mapping[int, int]
    consumer_offsets: Mapping[int, int | None]


class Server(Protocol):
    """A server with the topic of the demo. A kill and a start keep its address and its messages."""

    @property
    def name(self) -> str:
        """The name of the server, for the output."""

    @property
    def pid(self) -> int:
        """The process id of the broker."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options of Spark's source that lead to it."""

    def start(self) -> None:
        """Starts the broker and returns when it is ready. The first start also creates the topic."""

    def kill(self) -> object:
        """Kills the broker with SIGKILL."""

    def stop(self) -> None:
        """Ends all processes of the server."""

    def publish(self, flights: pa.Table, advance: Callable[[int], None]) -> None:
        """Sends each flight as a message, and returns when all are stored. ``advance`` gets numbers of messages."""

    def read_offsets(self, group: str) -> QueueOffsets:
        """Returns the offsets of the topic's queues, and those of a consumer group."""


class RmqpullServer:
    """``rmqpull-broker``."""

    name = "rmqpull-broker"

    def __init__(self, folder: RunFolder) -> None:
        self._broker = BrokerProcess({TOPIC: QUEUES}, data_dir=folder.broker_data, log_file=folder.broker_log)

    @property
    def pid(self) -> int:
        return self._broker.pid

    @property
    def options(self) -> Mapping[str, str]:
        return {"endpoints": self._broker.endpoints}

    def start(self) -> None:
        self._broker.start()

    def kill(self) -> None:
        self._broker.kill()

    def stop(self) -> None:
        self._broker.stop()

    def publish(self, flights: pa.Table, advance: Callable[[int], None]) -> None:
        client = connect(Connection(self._broker.endpoints, REQUEST_TIMEOUT_MS))
        for batch in flights_data.messages(flights):
            client.publish(TOPIC, batch)
            advance(batch.num_rows)
        client.close()

    def read_offsets(self, group: str) -> QueueOffsets:
        client = connect(Connection(self._broker.endpoints, REQUEST_TIMEOUT_MS))
        queues = client.query_bounds([TOPIC])[TOPIC].queues
        consumer_offsets = client.get_consumer_offsets(group, list(queues))
        client.close()
        return QueueOffsets(
            {queue.queue_id: bounds.max_offset for queue, bounds in queues.items()},
            {queue.queue_id: offset for queue, offset in consumer_offsets.items()},
        )
