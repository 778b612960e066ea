"""Each release that Maven has whole: rmqpull writes and reads, and all of it is there when the broker was restarted.

`make test-releases` runs this, and no other command does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from processes.apache.cluster import ApacheCluster
from processes.apache.releases import EACH_RELEASE, LEFT_OUT, Release
from processes.maven import SoftwareMissing
from rmqpull_client.connection import Connection
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect, get_producer
from rmqpull_proto.columns import PUBLISH_SCHEMA
from tests.harness.apache import run_apache
from tests.harness.served_broker import FLOW, TIMEOUT_MS

pytestmark = [pytest.mark.releases, pytest.mark.processes]

TOPIC, GROUP, QUEUES = "orders", "readers", 4
COLUMNS = ("body", "tags", "keys", "properties")


def make_rows(numbers: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {"body": b"%d" % one, "tags": f"T{one % 3}", "keys": [f"k{one}", "all"], "properties": [("größe", f"{one} €")]}
        for one in numbers
    ]


class Orders:
    """A topic of a cluster, and one client for the whole test, which continues after the broker was away."""

    def __init__(self, cluster: ApacheCluster) -> None:
        connection = Connection(name_servers=cluster.addresses, request_timeout_ms=TIMEOUT_MS)
        self._administration = cluster.administration
        self._administration.create_topic(TOPIC, QUEUES)
        self._producer = get_producer(connection)
        self.client = connect(connection, FLOW)

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Sends rows: one as SEND_MESSAGE_V2, several as SEND_BATCH_MESSAGE to each queue."""
        schema = pa.schema([PUBLISH_SCHEMA.field(name) for name in COLUMNS])
        [batch] = pa.Table.from_pylist(list(rows), schema).to_batches()
        self._producer.start_publish([(TOPIC, len(rows))], batch, False)()

    def read(self) -> dict[MessageQueue, list[dict[str, Any]]]:
        """Returns the rows of each queue, all that it has."""
        self._administration.wait_until_in_queues(TOPIC, self._administration.find_masters())
        bounds = self.client.query_bounds([TOPIC])[TOPIC].queues
        found: dict[MessageQueue, list[dict[str, Any]]] = {queue: [] for queue in bounds}
        ranges = [QueueRange(queue, *of_queue) for queue, of_queue in bounds.items()]
        for step in self.client.read(GROUP, ranges, COLUMNS):
            for entry in step:
                for batch in entry.batches:
                    found[entry.queue].extend(batch.select(COLUMNS).to_pylist())
        return found


def in_order(queues: dict[MessageQueue, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return sorted((row for rows in queues.values() for row in rows), key=lambda row: int(row["body"]))


@pytest.mark.parametrize("release", EACH_RELEASE, ids=lambda release: release.name)
def test_what_was_written_is_there_when_the_broker_was_restarted(release: Release, tmp_path: Path) -> None:
    rows = make_rows(range(2_002))
    with run_apache(release, tmp_path) as start:
        cluster = start()
        orders = Orders(cluster)
        orders.write(rows[:1_000])
        orders.write(rows[1_000:1_001])
        before = orders.read()
        assert in_order(before) == rows[:1_001]
        queues = list(before)
        assert len(queues) == QUEUES
        offsets = {queue: number + 1 for number, queue in enumerate(queues)}
        orders.client.set_consumer_offsets(GROUP, offsets)
        assert orders.client.get_consumer_offsets(GROUP, queues) == offsets

        [broker] = cluster.brokers
        broker.stop()  # a kill may lose consumer offsets: brokers write them every 5 s
        broker.start()
        assert orders.read() == before
        assert orders.client.get_consumer_offsets(GROUP, queues) == offsets
        orders.write(rows[1_001:2_001])
        orders.write(rows[2_001:])
        after = orders.read()
        assert in_order(after) == rows
        assert {queue: after[queue][: len(of_queue)] for queue, of_queue in before.items()} == before
        orders.client.close()


@pytest.mark.parametrize("version", LEFT_OUT)
def test_maven_still_lacks_what_a_release_needs_that_is_left_out(version: str) -> None:
    """If Maven has it now, move the release from LEFT_OUT to EACH_RELEASE."""
    with pytest.raises(SoftwareMissing, match=version):
        Release(version, server=version, client=version).fetch_server_jars()
