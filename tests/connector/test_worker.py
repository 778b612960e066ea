"""How a Python worker of Spark prepares for its tasks."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from zipimport import zipimporter

import pytest
from pyspark.sql.types import StructType

from pyspark_rmqpull import worker
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.writers import RmqpullBatchWriter, RmqpullStreamWriter
from pyspark_rmqpull.source import RmqpullDataSource
from pyspark_rmqpull.worker import drop_importers, prepare_worker
from rmqpull_client.errors import RmqpullError

OPTIONS = {"endpoints": "127.0.0.1:1", "topic": "orders"}
SINK_OPTIONS = SinkOptions.from_options(OPTIONS)

_PROGRAM = """
import gc
from pyspark_rmqpull.worker import prepare_worker

prepare_worker()
frozen = gc.get_freeze_count()
held = [[] for _ in range(1_000)]
prepare_worker()
print(frozen > 10_000, gc.get_freeze_count() == frozen)
"""


@pytest.mark.processes
def test_the_first_task_freezes_the_loaded_modules_and_later_tasks_freeze_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == ["True", "True"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with archives on Python's path: Spark's, and one of a user. A package has been imported from each."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for archive, package in (("pyspark.zip", "archived_spark"), ("jobs.zip", "archived_jobs")):
        with zipfile.ZipFile(tmp_path / archive, "w") as file:
            for name in ("__init__", "first", "second"):
                file.writestr(f"{package}/{name}.py", "")
        monkeypatch.syspath_prepend(str(tmp_path / archive))
        importlib.import_module(f"{package}.first")
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("archived_"):
            del sys.modules[name]


def list_importers(folder: Path) -> list[str]:
    importers = sys.path_importer_cache.items()
    kept = (Path(path) for path, importer in importers if isinstance(importer, zipimporter))
    return sorted(str(path.relative_to(folder)) for path in kept if path.is_relative_to(folder))


def test_importers_that_would_read_an_archive_of_spark_again_are_dropped(folder: Path) -> None:
    assert list_importers(folder) == ["jobs.zip", "jobs.zip/archived_jobs", "pyspark.zip", "pyspark.zip/archived_spark"]
    drop_importers()
    assert list_importers(folder) == ["jobs.zip"]
    for module in ("archived_spark.second", "archived_jobs.second"):
        importlib.import_module(module)


def test_a_users_archive_that_has_changed_is_read_again(folder: Path) -> None:
    drop_importers()
    with zipfile.ZipFile(folder / "jobs.zip", "a") as file:
        file.writestr("archived_jobs/third.py", "")
    importlib.invalidate_caches()
    importlib.import_module("archived_jobs.third")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: RmqpullDataSource(OPTIONS).schema(), id="load"),
        pytest.param(lambda: RmqpullDataSource({**OPTIONS, "body": "1"}).writer(StructType(), False), id="save"),
        pytest.param(prepare_worker, id="a task"),
        pytest.param(lambda: RmqpullBatchWriter(SINK_OPTIONS).commit([]), id="the commit of a batch"),
        pytest.param(lambda: RmqpullStreamWriter(SINK_OPTIONS).commit([], 0), id="the commit of a micro-batch"),
    ],
)
def test_every_call_of_spark_drops_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]
) -> None:
    monkeypatch.setattr(worker, "_settle_memory", lambda: None)  # it would freeze what this process holds
    with suppress(RmqpullError):  # no server is there, and not all options are
        call()
    assert list_importers(folder) == ["jobs.zip"]
