"""Apache's broker and Java clients, as a benchmark runs them."""

from __future__ import annotations

import pytest

from bench.apache import apache
from bench.apache_reading import PULLS_IN_FLIGHT, raised_limits
from bench.client_alone import run_side_by_side
from bench.comparison import Mismeasured
from bench.processor_time import BROKER, spent
from processes.apache.releases import Release

ROWS, QUEUES, BODY_BYTES = 16_000, 4, 100


def test_java_fills_reads_and_writes_topics_and_responses_can_be_counted(
    apache_release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)  # another garbage collector for short tests
    with apache() as running:
        running.fill("rows", QUEUES, ROWS, BODY_BYTES)
        ends = running.max_offsets("rows", QUEUES)
        assert ends == [ROWS // QUEUES] * QUEUES
        assert running.read("rows", ROWS, BODY_BYTES) > 0
        with pytest.raises(Mismeasured, match=f"Java failed: .*have {ROWS * BODY_BYTES} bytes"):
            running.read("rows", ROWS, BODY_BYTES + 1)
        running.create("written", QUEUES)
        assert running.write("written", ROWS, BODY_BYTES) > 0
        assert running.count("written", QUEUES, ROWS) == ROWS
        for size in (32, 512):
            running.configure(raised_limits(size))
            command = ["bench.undecoded", running.broker_address, "rows", str(size), str(PULLS_IN_FLIGHT)]
            shares = [[f"{queue}:{ends[queue]}" for queue in share] for share in ((0, 1), (2, 3))]
            assert run_side_by_side([[*command, *share] for share in shares]).messages == ROWS
        assert spent(running.kinds)[BROKER] > 0
