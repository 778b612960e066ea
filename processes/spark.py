"""Spark as a process: its settings, its programs, and which process of a Spark job does what."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from processes.process_table import read_command_line, read_parent

# For JVMs that live for seconds: an optimizing compiler and a concurrent collector would only cost time, on two cores a
# quarter of the demo's. Not for a job that runs longer. The last option: the JVM leaves no files in /tmp.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
SPARK_CONF = Path(__file__).resolve().parents[1] / "spark-conf"
JVM, SOURCE, WORKER = "JVM", "driver-side Python", "Python worker"
"""Kinds of processes. The driver runs Python sources in a process for each query, tasks run in Python workers."""
_DAEMON = "pyspark.daemon"


class SparkMissing(Exception):
    """PySpark is not installed."""


def find_spark() -> Path:
    """Returns the folder of the installed PySpark, with its programs in ``bin``. Raises SparkMissing."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkMissing("PySpark is not installed. Install it with: pip install 'rmqpull[spark,demo]'")
    return Path(spec.origin).parent


def make_spark_home(folder: Path) -> Path:
    """Makes a Spark home of the installed PySpark without its zip of Python modules. Returns the folder.

    Each Python process that Spark starts would compile the modules in that zip again. Without the zip, it imports the
    installed modules, which are compiled already. Raises SparkMissing.
    """
    spark = find_spark()
    folder.mkdir()
    for name in ("bin", "jars", "sbin"):
        (folder / name).symlink_to(spark / name)
    return folder


def kind_of(command_line: list[str]) -> str | None:
    """Returns which part of a Spark job a process is, by its command line; None for any other process."""
    if "pyspark.sql.streaming.python_streaming_source_runner" in command_line:
        return SOURCE
    if _DAEMON in command_line or "pyspark.worker" in command_line:
        return WORKER
    return JVM if command_line and Path(command_line[0]).name == "java" else None


def pick_workers(pids: Iterable[int]) -> list[int]:
    """Returns those processes that are Python workers. A daemon forks them, and they keep its command line."""
    daemons = [pid for pid in pids if _DAEMON in read_command_line(pid)]
    return [pid for pid in daemons if read_parent(pid) in daemons]
