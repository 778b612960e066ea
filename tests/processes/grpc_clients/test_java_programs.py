"""The benchmark with Apache's gRPC client for Java counts what it does."""

from __future__ import annotations

import json
from pathlib import Path

from processes.apache.releases import Release
from processes.grpc_clients.java_programs import start_grpc_java
from rmqpull_broker.testing import running_broker


def test_the_benchmark_counts_what_it_sends(apache_release: Release, tmp_path: Path) -> None:
    with running_broker({"sent": 2}) as broker:
        process = start_grpc_java("Bench", tmp_path, arguments=[broker.endpoints, "sent", "group", "send", "2", "100"])
        process.wait(60)
        (line,) = process.read_rest()
        result = json.loads(line)
        assert (result["messages"], len(broker.messages("sent"))) == (100, 100)
    assert set(result) == {"messages", "seconds", "processorSeconds", "p50Ms", "p99Ms"}
    assert 0 < result["p50Ms"] <= result["p99Ms"]
