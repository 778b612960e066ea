"""Apache's name server and broker, and Apache's Java producer, in place of `rmqpull-broker`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from demo import flights_data
from demo.run_folder import RunFolder
from demo.servers import QUEUES, TOPIC, QueueOffsets
from processes.apache.cluster import make_cluster
from processes.apache.java_programs import start_java
from processes.apache.releases import RELEASE_5, Release
from processes.children import ProcessFailed

MESSAGES_PER_BATCH = 500
"""A batch goes to one queue. So the queues differ by this many messages at most."""
SILENCE_SECONDS_MAX = 60.0


class ApacheServer:
    """Apache's name server and one broker with the default configuration.

    All calls raise ProcessFailed, SoftwareMissing, CallRefused and OSError.
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
        file = self._folder / "flights.txt"
        with file.open("wb") as lines:
            for batch in flights_data.messages(flights):
                lines.write(to_lines(batch))
        arguments = [self._cluster.addresses, TOPIC, str(file), str(MESSAGES_PER_BATCH)]
        producer = start_java(self._release, "PublishLines", self._folder / "producer.log", arguments=arguments)
        try:
            while True:
                count = producer.read_line(SILENCE_SECONDS_MAX)
                if count is None:
                    raise ProcessFailed(f"The {producer.name} was silent for {SILENCE_SECONDS_MAX:.0f} s.")
                advance(int(count))
        except EOFError:
            if code := producer.wait(SILENCE_SECONDS_MAX):
                raise ProcessFailed(f"The {producer.name} ended with exit code {code}.{producer.log_end()}") from None
        finally:
            producer.kill()

    def read_offsets(self, group: str) -> QueueOffsets:
        administration = self._cluster.administration
        return QueueOffsets(
            {queue: administration.query_bounds(TOPIC, queue)[1] for queue in range(QUEUES)},
            {queue: administration.query_offset(group, TOPIC, queue) for queue in range(QUEUES)},
        )


def to_lines(messages: pa.RecordBatch) -> bytes:
    """Returns a line for each message: its tag, its keys and its body, with a tab between them."""
    parts = [messages["tags"], pc.binary_join(messages["keys"], " "), messages["body"].cast(pa.string())]
    lines = pc.binary_join_element_wise(*parts, "\t")
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
    text: str = joined[0].as_py()
    return f"{text}\n".encode()
