"""The example of a Java project: its tests pass on the emulator and on a real RocketMQ; only the address differs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from processes.maven import run_maven
from tests.harness.client_servers import SERVERS, ClientServers, ServerKind

PROJECT = Path(__file__).parents[2] / "examples" / "java-junit"


@pytest.mark.parametrize("kind", SERVERS)
def test_the_example_of_a_java_project_passes(client_servers: ClientServers, kind: ServerKind, tmp_path: Path) -> None:
    """A Java project with JUnit: its tests of push consumers run with nothing but the address of the name server."""
    server = client_servers.find_server(kind)
    for topic in ("orders", "invoices"):
        server.put_topic(topic, 4)
    project = shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("target"))
    printed = run_maven(project, "test", environment={"NAMESRV_ADDR": server.address})
    assert "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0" in printed
