"""The Spark home of processes, and the kinds of Spark's processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes.spark import JVM, SOURCE, WORKER, kind_of, make_spark_home


def test_spark_s_processes_import_the_modules_that_are_installed(tmp_path: Path) -> None:
    home = make_spark_home(tmp_path / "spark")
    assert (home / "bin" / "spark-submit").is_file()
    assert list(home.glob("jars/spark-core_*.jar"))
    assert not list(home.glob("python/lib/*.zip"))


@pytest.mark.parametrize(
    ("command_line", "kind"),
    [
        ("/jvm/bin/java\0-cp\0/x/pyspark.daemon\0org.apache.spark.deploy.SparkSubmit", JVM),
        ("python\0-m\0pyspark.daemon\0pyspark.worker", WORKER),
        ("python\0-m\0pyspark.sql.streaming.python_streaming_source_runner", SOURCE),
        ("bash\0-c\0true", None),
    ],
)
def test_processes_of_a_session_are_told_apart(command_line: str, kind: str | None) -> None:
    assert kind_of(command_line.split("\0")) == kind
