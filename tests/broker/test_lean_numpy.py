"""The broker's own process imports neither pandas nor NumPy; a program that embeds a broker may."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rmqpull_broker.cli import COMMANDS
from rmqpull_broker.lean import LEFT_OUT
from rmqpull_broker.testing import BrokerProcess

RESIDENT_BYTES_MAX = 100_000_000
WITH_ARROW = {"send", "peek", "log"}
HAS_PROC = Path("/proc/self/maps").exists()

COMMAND_LINES = {
    "module": [sys.executable, "-m", "rmqpull_broker"],
    "script": [str(Path(sys.executable).with_name("rmqpull-broker"))],
}


@pytest.mark.processes
@pytest.mark.skipif(not HAS_PROC, reason="only Linux tells what another process has loaded")
@pytest.mark.parametrize("command", COMMAND_LINES.values(), ids=COMMAND_LINES)
def test_a_serving_broker_imports_arrow_without_numpy_and_is_small(command: list[str]) -> None:
    pytest.importorskip("pandas")
    with BrokerProcess({"orders": 8}, command=command) as broker:
        process = Path(f"/proc/{broker.pid}")
        loaded = {Path(line.split()[-1]) for line in process.joinpath("maps").read_text().splitlines()}
        status = dict(line.split(":", 1) for line in process.joinpath("status").read_text().splitlines())
    packages = {part for file in loaded for part in file.parts}
    assert "pyarrow" in packages
    assert packages.isdisjoint(LEFT_OUT)
    assert int(status["VmRSS"].split()[0]) * 1024 <= RESIDENT_BYTES_MAX


BEGIN = "import sys; from rmqpull_broker.lean import LEFT_OUT, leave_out_numpy; "
END = (
    "import rmqpull_broker.assembly, pyarrow as pa, pyarrow.compute; "
    "print([name in sys.modules for name in LEFT_OUT], pa.array([1, None]).null_count)"
)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (BEGIN + END, "[True, True] 1"),  # otherwise the hiding has no purpose
        (BEGIN + "leave_out_numpy(); " + END, "[False, False] 1"),
    ],
)
def test_arrow_works_without_pandas_and_numpy(program: str, said: str) -> None:
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == said, done.stderr


@pytest.mark.processes
def test_commands_that_need_no_arrow_do_not_load_it() -> None:
    """``serve`` refuses a wrong flag before it imports Arrow."""
    lean = ", ".join(f"rmqpull_broker.cli.commands.{name}" for name in COMMANDS.keys() - WITH_ARROW)
    program = f"import sys, {lean}; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "False\n", done.stderr
