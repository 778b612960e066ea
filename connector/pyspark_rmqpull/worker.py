"""The Python processes in which Spark plans and runs tasks: what keeps each call of Spark short."""

from __future__ import annotations

import gc
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import PurePath
from zipimport import zipimporter

from rmqpull_proto.large_messages import reuse_memory

_ARCHIVES_OF_SPARK = ("pyspark.zip", "py4j-*.zip", "spark-core_*.jar")
"""What Spark adds to the path of a worker. They do not change while it runs."""


def prepare_worker() -> None:
    """Prepares the process for tasks. Call it when a task starts."""
    drop_importers()
    _settle_memory()


def drop_importers() -> None:
    """Drops importers that would read Spark's archives again. Call it whenever Spark calls the connector.

    Before each call, a worker of PySpark 4.0 and 4.1 makes every importer read the directory of its archive again
    (SPARK-54744). Each package that was imported from pyspark.zip has one: 18 reads, which take 0.13 s. Python makes
    an importer anew when it needs one. Archives that are not Spark's keep theirs, because they may change.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and (importer.prefix or _is_of_spark(importer.archive)):
            sys.path_importer_cache.pop(path, None)


def _is_of_spark(archive: str) -> bool:
    name = PurePath(archive).name
    return any(fnmatch(name, pattern) for pattern in _ARCHIVES_OF_SPARK)


@cache
def _settle_memory() -> None:
    """Freezes what is loaded when the first task starts.

    Spark's daemon collects garbage after each task. Nearly everything that it scans belongs to modules, which never
    become garbage: freezing them saves a tenth of a second for each task.
    """
    gc.freeze()
    reuse_memory()
