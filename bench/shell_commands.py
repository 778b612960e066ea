"""Single commands, of rmqpull and of Apache's `mqadmin`: how long they take until their first output and their end."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.comparison import Mismeasured
from processes.apache.java_programs import start_java
from processes.apache.releases import RELEASE_5
from processes.children import Child

TOOLS_OPTIONS = ("-server", "-Xms1g", "-Xmx1g", "-Xmn256m", "-XX:MetaspaceSize=128m", "-XX:MaxMetaspaceSize=128m")
"""The options of Apache's script `tools.sh`, which starts `mqadmin`."""
ENDED_S_MAX = 900.0


class Ran(NamedTuple):
    """What a command took, in seconds, from the start of its process, and the first line that it printed."""

    first_output_s: float
    whole_s: float
    cpu_s: float
    first_line: str


def read_children_cpu_s() -> float:
    """Returns the processor time of the processes of this one that have ended, and of theirs, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_rmqpull(name_servers: str, folder: Path, *arguments: str) -> Ran:
    """Runs a command of rmqpull, as it is installed beside this Python. Raises Mismeasured."""
    command = [str(Path(sys.executable).with_name("rmqpull")), "--name-servers", name_servers, *arguments]
    # An installed package has compiled modules. With this variable, each process would compile those of a checkout.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    return _run(Child("rmqpull", command, folder / "rmqpull.log", environment))


def run_mqadmin(name_servers: str, folder: Path, *arguments: str) -> Ran:
    """Runs a command of Apache's, without the shell script around it. Raises Mismeasured and SoftwareMissing."""
    process = start_java(
        RELEASE_5,
        "org.apache.rocketmq.tools.command.MQAdminStartup",
        folder / "mqadmin.log",
        arguments=arguments,
        java_options=[*TOOLS_OPTIONS, f"-Drocketmq.namesrv.addr={name_servers}"],
    )
    return _run(process)


def _run(process: Child) -> Ran:
    """Waits for the end of a command. No other child of this process may end meanwhile."""
    begun_s, begun_cpu_s = time.monotonic(), read_children_cpu_s()
    try:
        line = process.read_line(ENDED_S_MAX)
        first_output_s = time.monotonic() - begun_s
        code = process.wait(ENDED_S_MAX)
        whole_s = time.monotonic() - begun_s
    except EOFError:
        raise Mismeasured(f"the {process.name} printed nothing{process.log_end()}") from None
    finally:
        process.kill()
    if code or line is None:
        raise Mismeasured(f"the {process.name} ended with exit code {code}{process.log_end()}")
    return Ran(first_output_s, whole_s, read_children_cpu_s() - begun_cpu_s, line)
