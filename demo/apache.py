"""Apache's name server and broker, and Apache's Java producer, in place of `rmqpull-broker`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from demo import flights_data
from demo.run_folder import RunFolder
from demo.servers import QUEUES, TOPIC, QueueOffsets
from processes.apache.java_programs import start_java
from processes.apache.releases import RELEASE_5
from processes.apache.servers import Broker, NameServer
from processes.children import ProcessFailed

MESSAGES_PER_BATCH = 500
"""A batch goes to one queue. So the queues differ by this many messages at most."""
SILENCE_SECONDS_MAX = 60.0


class ApacheServer:
    """Apache's name server and one broker with the default configuration.

    All calls raise ProcessFailed, SoftwareMissing, CallRefused and OSError.
    """

    name = f"Apache RocketMQ {RELEASE_5.server}, a name server and a broker,"

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder.work.resolve() / "apache"
        self._name_server = NameServer(release=RELEASE_5, folder=self._folder / "name-server")
        name_servers = self._name_server.address
        self._broker = Broker(release=RELEASE_5, folder=self._folder / "broker", name_servers=name_servers)
        self._broker.log.symlink_to(folder.broker_log.resolve())  # it stays when the work folder is removed

    @property
    def pid(self) -> int:
        return self._broker.pid

    @property
    def options(self) -> Mapping[str, str]:
        return {"nameServers": self._name_server.address}

    def start(self) -> None:
        is_first = not self._name_server.is_running
        if is_first:
            self._name_server.start()
        self._broker.start()
        if is_first:
            self._broker.administration.create_topic(TOPIC, QUEUES)

    def kill(self) -> None:
        self._broker.kill()

    def stop(self) -> None:
        self._broker.release_ports()  # by a kill: their orderly end takes 20 s, and nobody starts them again
        self._name_server.release_ports()

    def publish(self, flights: pa.Table, advance: Callable[[int], None]) -> None:
        file = self._folder / "flights.txt"
        with file.open("wb") as lines:
            for batch in flights_data.messages(flights):
                lines.write(to_lines(batch))
        arguments = [self._name_server.address, TOPIC, str(file), str(MESSAGES_PER_BATCH)]
        producer = start_java(RELEASE_5, "PublishLines", self._folder / "producer.log", arguments=arguments)
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
        administration = self._broker.administration
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
