"""Spark programs as processes of their own, and what they need: a Python without this project, and its zip."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark_rmqpull
import rmqpull_client
import rmqpull_proto
from processes.children import Child, Children
from processes.spark import find_spark

SPARK_BIN = find_spark() / "bin"
WAIT_S = 180


class SparkProcesses:
    """Starts Spark programs in a folder, which also gets their logs."""

    def __init__(self, folder: Path, children: Children) -> None:
        self._folder = folder
        self._children = children

    def start(self, name: str, *command: str, **environment: str) -> Child:
        log = self._folder / f"{name}.log"
        return self._children.start(name, command, log, environment, self._folder, logs_output=True)


@contextmanager
def run_spark_processes(folder: Path) -> Iterator[SparkProcesses]:
    """Yields a starter of Spark programs. They end with the block, with everything that they have started."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder / "local")}
    with Children({**inherited, **local}) as children:
        yield SparkProcesses(folder, children)


def python_without_rmqpull(folder: Path) -> str:
    """An environment with everything that this one has, but for this project. Returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    (theirs,) = folder.glob("lib/python*/site-packages")
    for ours in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(ours).iterdir():
            if "rmqpull" not in entry.name and not (theirs / entry.name).exists():
                (theirs / entry.name).symlink_to(entry)
    python = folder / "bin" / "python"
    check = subprocess.run(
        [python, "-c", "import pyspark_rmqpull"], capture_output=True, text=True, env={}, cwd=folder, timeout=WAIT_S
    )
    assert "No module named 'pyspark_rmqpull'" in check.stderr
    return str(python)


def zip_of_connector(file: Path) -> None:
    """The three packages that a Spark application needs, as a zip that Python imports from."""
    with zipfile.ZipFile(file, "w") as archive:
        for package in (pyspark_rmqpull, rmqpull_client, rmqpull_proto):
            root = Path(str(package.__file__)).parent
            for module in sorted(root.rglob("*.py")):
                archive.write(module, Path(root.name) / module.relative_to(root))
