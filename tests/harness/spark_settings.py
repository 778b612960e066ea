"""The settings of Spark in the tests: those that the project recommends, and a few more.

Environment variables pass them to every Spark that a test starts, in this process or in another.
"""

from __future__ import annotations

import sys
from pathlib import Path

from processes.spark import SHORT_LIVED_JAVA, SPARK_CONF, make_spark_home

# On a machine that stands still for seconds, the handshake of a JVM with a Python process that it has started ends in
# "Python worker failed to connect back": the JVM gives it 10 s, which no setting changes, and Python 15 s, which the
# time-out replaces. Over a Unix domain socket there is no handshake, but the JVM still waits 10 s for the connection.
PATIENT = """
spark.python.authenticate.socketTimeout    300s
spark.python.unix.domain.socket.enabled    true
spark.python.unix.domain.socket.dir        {sockets}
"""


def spark_environment(folder: Path) -> dict[str, str]:
    """Writes the settings to a folder and returns the variables that name it. Paths of sockets must be short."""
    conf, home = folder / "conf", folder / "home"
    conf.mkdir()
    for file in SPARK_CONF.iterdir():
        (conf / file.name).write_bytes(file.read_bytes())
    with (conf / "spark-defaults.conf").open("a", encoding="utf-8") as defaults:
        defaults.write(PATIENT.format(sockets=folder))
    return {
        "SPARK_CONF_DIR": str(conf),
        "SPARK_HOME": str(make_spark_home(home)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": SHORT_LIVED_JAVA,
    }
