"""The sizes of the comparison over the remoting protocol."""

from __future__ import annotations

from dataclasses import dataclass

from bench.sizes import size


@dataclass(frozen=True)
class RemotingSizes:
    """All sizes. The defaults are those of a whole run."""

    runs: int = size(3, "Runs of each measurement, after one that does not count.")
    rows: int = size(2_000_000, "Messages of the topic that is pulled.")
    pushed_rows: int = size(400_000, "Messages of the topic that a push consumer reads.")
    queues: int = size(8, "Queues of each topic.")
    body_bytes: int = size(100, "Bytes of each body.")
    single_sends: int = size(10_000, "Messages of a run that are sent one at a time.")
    batched_sends: int = size(200_000, "Messages of a run that are sent in batches.")
    batch_size: int = size(200, "Messages of a batch.")
    threads: int = size(8, "Threads that send.")
    wake_ups: int = size(300, "Messages of a run that are sent to a waiting consumer.")
    starts: int = size(3, "Starts of each server.")


QUICK = RemotingSizes(
    runs=1, rows=160_000, pushed_rows=40_000, single_sends=2_000, batched_sends=20_000, wake_ups=50, starts=1
)
