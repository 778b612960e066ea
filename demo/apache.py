"""Apache's name server and broker, and Apache's Java producer, in place of `rmqpull-broker`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from demo import flights_data
from demo.run_folder import RunFolder
from demo.servers import QUEUES, TOPIC, QueueOffsets
from processes.apache.cluster import make_cluster
from processes.apache.java_clients import JavaProducer, make_message
from processes.apache.releases import RELEASE_5, Release

MESSAGES_PER_BATCH = 500
"""A batch goes to one queue, so the queues differ by at most this many messages."""


class ApacheServer:
    """Apache's name server and one broker with the default configuration.

    All calls raise ProcessFailed, SoftwareMissing, CallRefused, SendFailed and OSError.
    """

    def __init__(self, folder: RunFolder, release: Release = RELEASE_5) -> None:
        self._release = release
        self._folder = folder.work.resolve() / "apache"
        self._cluster = make_cluster(self._folder, release=release)
        (self._broker,) = self._cluster.brokers
        self._broker.log.symlink_to(folder.broker_log.resolve())  # it stays when the work folder is removed

    @property
    def name(self) -> str:
        return f"Apache RocketMQ {self._release.server}, a name server and a broker,"

    @property
    def pid(self) -> int:
        return self._broker.pid

    @property
    def options(self) -> Mapping[str, str]:
        return {"nameServers": self._cluster.addresses}

    def start(self) -> None:
        if self._cluster.name_servers[0].is_running:
            self._broker.start()
            return
        self._cluster.start()
        self._cluster.administration.create_topic(TOPIC, QUEUES)

    def kill(self) -> None:
        self._broker.kill()

    def stop(self) -> None:
        self._cluster.close()  # by a kill: their orderly end takes 20 s, and nobody starts them again

    def publish(self, flights: pa.Table, advance: Callable[[int], None]) -> None:
        with JavaProducer(self._release, self._cluster.addresses, self._folder / "producer") as producer:
            for batch in flights_data.messages(flights, MESSAGES_PER_BATCH):
                producer.send_batch(to_java(batch))
                advance(batch.num_rows)

    def read_offsets(self, group: str) -> QueueOffsets:
        administration = self._cluster.administration
        return QueueOffsets(
            {queue: administration.query_bounds(TOPIC, queue)[1] for queue in range(QUEUES)},
            {queue: administration.query_offset(group, TOPIC, queue) for queue in range(QUEUES)},
        )


def to_java(messages: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yields messages for Apache's producer, with their tags and keys."""
    for message in messages.to_pylist():
        yield make_message(TOPIC, message["body"], tags=message["tags"], keys=" ".join(message["keys"]) or None)
