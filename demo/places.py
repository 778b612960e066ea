"""Where everything of one run goes. Only what the demo itself has made is ever removed."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

# Three JVMs of some seconds each: what an optimising compiler and a concurrent collector gain comes too late for them,
# and on two cores costs a quarter of the demo's time. Not for a job that runs longer. The last one: no traces in /tmp.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
SPARK_CONF = Path(__file__).resolve().parents[1] / "spark-conf"


class Unusable(Exception):
    """The folder cannot be written, or another demo is writing into it."""


def make_spark_home(folder: Path) -> Path:
    """Makes a Spark home of the installed PySpark, without its zip of Python modules, and returns it.

    Every Python process that Spark starts would compile the modules of that zip anew. Without it, the processes import
    the modules that are installed, and these are compiled already.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Unusable("PySpark is not installed. Install it with: pip install 'rmqpull[spark,demo]'")
    folder.mkdir()
    for name in ("bin", "jars", "sbin"):
        (folder / name).symlink_to(Path(spec.origin).parent / name)
    return folder


@dataclass(frozen=True)
class Places:
    """The folder of one run. `work` is removed at its end; the rest is there to be looked at until the next run."""

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
    def made_new(output: Path) -> Iterator[Places]:
        """The folder without what an earlier run left in it, and ours alone until the end."""
        places = Places(output)
        try:
            output.mkdir(parents=True, exist_ok=True)
            lock = os.open(output, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            places._clear()
            places.work.mkdir()
            make_spark_home(places.spark_home.resolve())
        except BlockingIOError:
            raise Unusable(f"Another demo is writing into {output}. Choose another folder with --output.") from None
        except OSError as error:
            raise Unusable(f"Cannot write into {output}: {error.strerror}. Choose another with --output.") from None
        try:
            yield places
        finally:
            shutil.rmtree(places.work, ignore_errors=True)
            os.close(lock)

    def environment(self) -> dict[str, str]:
        """For the processes: Spark's settings unless others are given, this interpreter for its workers, and a scratch
        folder of their own, since a process that is killed leaves there what it has.
        """
        scratch = str(self.work.resolve())
        java_options = f'{SHORT_LIVED_JAVA} -Djava.io.tmpdir="{scratch}" {os.environ.get("JDK_JAVA_OPTIONS", "")}'
        defaults = {
            "SPARK_CONF_DIR": str(SPARK_CONF),
            "SPARK_HOME": str(self.spark_home.resolve()),
            "PYSPARK_PYTHON": sys.executable,
            # Otherwise each process that loads NumPy starts a thread for each core, which nothing here uses.
            "OPENBLAS_NUM_THREADS": "1",
        }
        private = {"TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch, "JDK_JAVA_OPTIONS": java_options.strip()}
        return {**defaults, **os.environ, **private}

    def _clear(self) -> None:
        for folder in (self.work, self.checkpoint, self.result):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.picture, self.broker_log, self.job_log):
            file.unlink(missing_ok=True)
