"""What Spark sees of the installed distribution: it lists top-level modules, and imports every `pyspark_*`."""

import importlib
import json
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import pytest

import pyspark_rmqpull
import rmqpull_broker
import rmqpull_client
import rmqpull_proto

FOLDERS = ("connector", "broker_emulator", "bench", "demo", "examples", "processes", "scripts", "soak", "tests")
HEAVY = ("grpc", "google.protobuf", "numpy", "pandas", "pyarrow", "rmqpull_broker")
LIGHT = {"rmqpull_proto", "rmqpull_proto.names"}
"""What the wire has that imports nothing."""


def in_fresh_interpreter(code: str, cwd: Path) -> list[str]:
    """Runs code in another folder, where only installed modules are found. The code prints a list in JSON."""
    answer = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    found: list[str] = json.loads(answer.stdout)
    return found


@pytest.mark.processes
def test_spark_finds_the_data_source_by_listing_modules(tmp_path: Path) -> None:
    listed = in_fresh_interpreter(
        "import json, pkgutil; print(json.dumps([m.name for m in pkgutil.iter_modules()]))", tmp_path
    )
    assert {"pyspark_rmqpull", "rmqpull_broker", "rmqpull_client", "rmqpull_proto"} <= set(listed)


@pytest.mark.processes
def test_folders_of_the_repository_are_no_packages_of_the_distribution(tmp_path: Path) -> None:
    found = in_fresh_interpreter(
        f"import importlib.util, json; print(json.dumps([f for f in {FOLDERS} if importlib.util.find_spec(f)]))",
        tmp_path,
    )
    assert found == []


@pytest.mark.processes
def test_importing_the_data_source_loads_pyspark_and_nothing_heavy(tmp_path: Path) -> None:
    loaded = in_fresh_interpreter(
        "import json, sys, pyspark_rmqpull; print(json.dumps([m for m in sys.modules if m.startswith("
        f"{(*HEAVY, 'rmqpull_proto')})]))",
        tmp_path,
    )
    assert set(loaded) <= LIGHT


def test_all_packages_name_the_version_that_is_installed() -> None:
    packages = (rmqpull_proto, rmqpull_client, pyspark_rmqpull, rmqpull_broker)
    assert {package.__version__ for package in packages} == {version("rmqpull")}


@pytest.mark.parametrize("extra", ["remoting", "spark"])
def test_extras_that_reach_clusters_of_rocketmq_install_numpy(extra: str) -> None:
    of_extra = [each for each in requires("rmqpull") or () if f'extra == "{extra}"' in each]
    assert [each for each in of_extra if each.startswith("numpy")]


def test_the_old_path_of_the_client_works_for_one_release() -> None:
    old_path = importlib.import_module("pyspark_rmqpull.client")
    assert {name: getattr(old_path, name) is getattr(rmqpull_client, name) for name in old_path.__all__} == {
        "BrokerClient": True,
        "Connection": True,
        "QueueRows": True,
        "connect": True,
    }


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("pyspark_rmqpull.lag", "RmqpullLagListener"),
        ("pyspark_rmqpull.lag.prometheus", "LagCollector"),
        ("pyspark_rmqpull.sink", "without_repeats"),
        ("pyspark_rmqpull.errors", "DataLoss"),
        ("rmqpull_broker.core.model", "TopicType"),
        ("rmqpull_broker.testing", "running_broker"),
        ("rmqpull_broker.testcontainers", "RocketMQEmulatorContainer"),
    ],
)
def test_documented_imports_stay(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)
