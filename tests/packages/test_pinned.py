"""On a platform that pins packages, an install of the wheel changes none of them, and rmqpull works with them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from processes.apache.cluster import make_cluster
from processes.environments import build_wheel, freeze, install, make_environment, make_layer
from tests.harness.apache import StartApache
from tests.harness.broker_processes import StartBroker

pytestmark = [pytest.mark.packages, pytest.mark.processes]

PINS = (
    "cryptography==44.0.1",
    "googleapis-common-protos==1.65.0",
    "grpcio==1.67.0",
    "grpcio-status==1.67.0",
    "numpy==2.1.3",
    "pandas==2.2.3",
    "protobuf==5.29.4",
    "pyarrow==21.0.0",
    "pyspark==4.1.*",
)
"""Pins of Databricks' image for client 5 (its list is linked in docs/platforms.md), and the Spark that goes with it."""
IMPORTED = ("rmqpull_client", "rmqpull_proto", "pyspark_rmqpull", "rmqpull_broker", "rmqpull_broker.server.app")
CLIENT_COPY, SPARK_COPY = "client_copy.py", "spark_copy.py"
PROGRAMS = (CLIENT_COPY, SPARK_COPY)
"""Programs in the folder beside this file, which each copy messages. All get the same arguments."""
DONE_WITHIN_S = 180
COPIED = "['one a', 'three None', 'two b']\n"
TOPIC = "orders"


class Installed(NamedTuple):
    """An environment with the pins after an install of the wheel."""

    python: Path
    before: dict[str, str]
    """The release of each package before the install."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("pinned")
    python = make_layer(folder / "environment", make_environment("pinned", PINS))
    before = freeze(python)
    install(python, build_wheel(folder))
    return Installed(python, before)


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    environment.pop("SPARK_HOME", None)  # that of the tests is of another release
    return subprocess.run(
        [python, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DONE_WITHIN_S,
        check=False,
    )


def assert_copies(python: Path, program: str, servers: str) -> None:
    done = run(python, str(Path(__file__).parent / "programs" / program), servers, TOPIC)
    assert (done.returncode, done.stdout) == (0, COPIED), done.stderr


def test_an_install_changes_no_package(installed: Installed) -> None:
    after = freeze(installed.python)
    assert {name: after.get(name) for name in installed.before} == installed.before
    assert installed.before.keys() >= {"grpcio", "protobuf", "pyarrow", "pyspark"}
    assert "rmqpull" not in installed.before


def test_it_imports_without_a_warning(installed: Installed) -> None:
    done = run(installed.python, "-W", "error", "-c", f"import {', '.join(IMPORTED)}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_writes_and_reads_on_the_emulator(installed: Installed, start_broker: StartBroker, program: str) -> None:
    broker = start_broker({TOPIC: 2})
    assert_copies(installed.python, program, broker.endpoints)


# Spark on the emulator and the client on a real cluster show before a merge what Spark on a real cluster needs.
@pytest.mark.parametrize("program", [CLIENT_COPY, pytest.param(SPARK_COPY, id=SPARK_COPY, marks=pytest.mark.nightly)])
def test_it_writes_and_reads_on_a_real_cluster(installed: Installed, start_apache: StartApache, program: str) -> None:
    cluster = start_apache(make_cluster)
    cluster.administration.create_topic(TOPIC, 2)
    assert_copies(installed.python, program, f"nameServers={cluster.addresses}")


def test_its_own_broker_serves(installed: Installed) -> None:
    """The broker with the pins, and the client in the same process."""
    program = f"""if True:
        import runpy, sys
        from rmqpull_broker.testing import running_broker

        with running_broker({{"{TOPIC}": 2}}) as broker:
            sys.argv = ["", broker.endpoints, "{TOPIC}"]
            runpy.run_path({str(Path(__file__).parent / "programs" / "client_copy.py")!r})
    """
    done = run(installed.python, "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, COPIED, "")
