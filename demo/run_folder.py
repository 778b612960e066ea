"""The folder of one run. The demo removes nothing in it but its own files."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes.spark import SHORT_LIVED_JAVA, SPARK_CONF, make_spark_home


class Unusable(Exception):
    """The folder cannot be written, or another demo is writing into it."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. `work` is removed at the end; the rest stays until the next run."""

    output: Path

    @property
    def work(self) -> Path:
        return self.output / "work"

    @property
    def broker_data(self) -> Path:
        return self.work / "broker"

    @property
    def spark_home(self) -> Path:
        return self.work / "spark"

    @property
    def checkpoint(self) -> Path:
        return self.output / "checkpoint"

    @property
    def result(self) -> Path:
        return self.output / "flights.parquet"

    @property
    def picture(self) -> Path:
        return self.output / "flights.png"

    @property
    def broker_log(self) -> Path:
        return self.output / "broker.log"

    @property
    def job_log(self) -> Path:
        return self.output / "job.log"

    @staticmethod
    @contextmanager
    def make_new(output: Path) -> Iterator[RunFolder]:
        """Yields the folder without the files of an earlier run, locked until the end. Raises Unusable."""
        folder = RunFolder(output)
        try:
            output.mkdir(parents=True, exist_ok=True)
            lock = os.open(output, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder._clear()
            folder.work.mkdir()
            make_spark_home(folder.spark_home.resolve())
        except BlockingIOError:
            raise Unusable(f"Another demo is writing into {output}. Choose another folder with --output.") from None
        except OSError as error:
            raise Unusable(f"Cannot write into {output}: {error.strerror}. Choose another with --output.") from None
        try:
            yield folder
        finally:
            shutil.rmtree(folder.work, ignore_errors=True)
            os.close(lock)

    def environment(self) -> dict[str, str]:
        """Returns the environment of all processes: Spark's settings unless others are set, this interpreter for the
        workers, and a scratch folder of this run, since a killed process leaves its temporary files.
        """
        scratch = str(self.work.resolve())
        java_options = f'{SHORT_LIVED_JAVA} -Djava.io.tmpdir="{scratch}" {os.environ.get("JDK_JAVA_OPTIONS", "")}'
        defaults = {
            "SPARK_CONF_DIR": str(SPARK_CONF),
            "SPARK_HOME": str(self.spark_home.resolve()),
            "PYSPARK_PYTHON": sys.executable,
            # Else each process that loads NumPy starts a thread for each core, and nothing here uses them.
            "OPENBLAS_NUM_THREADS": "1",
        }
        private = {"TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch, "JDK_JAVA_OPTIONS": java_options.strip()}
        return {**defaults, **os.environ, **private}

    def _clear(self) -> None:
        for folder in (self.work, self.checkpoint, self.result):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.picture, self.broker_log, self.job_log):
            file.unlink(missing_ok=True)
