"""Queries continue from checkpoints of version 1, in later releases too. The files are kept as they were written.

Each is of a query over "flights", ten messages in two queues, with ``maxOffsetsPerTrigger`` 4, which was killed within
a batch.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harness.server_kinds import COLUMNS
from tests.harness.servers import ManagedServer, StartServer
from tests.harness.spark_queries import Queries, Topic

CHECKPOINTS = Path(__file__).parents[1] / "connector" / "planning" / "checkpoints"
CREATION_ID = "dd7603eda464e0f3"


def place(kept: Path, here: Path, creation_id: str) -> None:
    """Copies a kept checkpoint for a query. Its topic becomes that of this test's broker."""
    shutil.copytree(kept, here)
    for log in (here / "offsets").iterdir():
        log.write_text(log.read_text().replace(CREATION_ID, creation_id))


def find_creation_id(server: ManagedServer, kind: str) -> str:
    """Returns the id of the topic, or another one for servers that have no ids."""
    if kind != COLUMNS:
        return CREATION_ID
    return server.broker.look(lambda state: state.require_topic("flights").creation_id)


@pytest.mark.parametrize(
    ("name", "options", "batches"),
    [
        # The first batch starts at the offset that Spark has logged. Options no longer matter.
        ("version-1-within-its-first-batch", {"startingOffsets": "latest"}, {0: (0, 2), 1: (2, 4), 2: (4, 5)}),
        ("version-1-within-its-second-batch", {}, {1: (2, 4), 2: (4, 5)}),
        ("version-1-after-losses", {"failOnDataLoss": "false"}, {1: (2, 4), 2: (4, 5)}),
    ],
)
def test_a_query_continues_from_its_checkpoint(
    queries: Queries,
    start_server: StartServer,
    kind: str,
    name: str,
    options: dict[str, str],
    batches: dict[int, tuple[int, int]],
) -> None:
    """Acceptance cases 23 and 33."""
    server = start_server({"flights": 2})
    place(CHECKPOINTS / name, queries.checkpoint, find_creation_id(server, kind))
    server.send("flights", *(b"%d" % number for number in range(10)))
    given = {"maxOffsetsPerTrigger": "4", **options}
    run = queries.run(queries.stream(Topic("flights", server), **given))
    places = {
        batch_id: sorted((row["queueId"], row["queueOffset"]) for row in rows) for batch_id, rows in run.batches.items()
    }
    assert places == {
        batch_id: [(queue_id, offset) for queue_id in (0, 1) for offset in range(*span)]
        for batch_id, span in batches.items()
    }
