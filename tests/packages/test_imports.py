"""Importing what uses protobuf and gRPC warns about nothing, whichever releases of them are installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rmqpull_proto import generate
from tests.harness.waiting import WAIT_S

GENERATED = sorted(
    ".".join(("rmqpull_proto", *path.relative_to(generate.ROOT).with_suffix("").parts))
    for path in generate.ROOT.rglob("*_pb2.py")
)
OTHERS = [
    "rmqpull_client.transports.choice",
    "rmqpull_client.transports.grpc.channel",
    "rmqpull_client.transports.grpc.columnar.client",
    "rmqpull_client.transports.grpc.standard.client",
    "rmqpull_client.transports.remoting.client",
    "rmqpull_broker.server.app",
    "rmqpull_broker.testing",
]


@pytest.mark.processes
@pytest.mark.warnings_at_import
@pytest.mark.parametrize("modules", [pytest.param(GENERATED, id="generated"), pytest.param(OTHERS, id="others")])
def test_an_import_warns_about_nothing(modules: list[str]) -> None:
    assert modules
    command = [sys.executable, "-W", "error", "-c", f"import {', '.join(modules)}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
