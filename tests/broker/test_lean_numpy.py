"""The broker's own process imports neither pandas nor NumPy; a program that embeds a broker may."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rmqpull_broker.cli import COMMANDS
from rmqpull_broker.lean import LEFT_OUT
from rmqpull_broker.testing import BrokerProcess

PARTS: dict[str, tuple[list[str], int]] = {
    "nothing": ([], 98),
    "remoting": (["--remoting", "127.0.0.1:0"], 100),
    "metrics": (["--metrics-listen", "127.0.0.1:0"], 101),
    "data": (["--data-dir", "data"], 98),
    "tls": (["--tls-listen", "127.0.0.1:0"], 111),  # it makes a certificate
}
"""Flags, and the most memory that `serve` may take with them, in MB: 10 more than docs/broker-settings.md says."""
ALL_OF_THEM = ([flag for flags, _ in PARTS.values() for flag in flags], 116)
WITH_ARROW = {"log"}
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
        packages, resident_mb = look_at(broker)
    assert "pyarrow" in packages
    assert packages.isdisjoint(LEFT_OUT)
    assert resident_mb <= PARTS["nothing"][1]


def look_at(broker: BrokerProcess) -> tuple[set[str], float]:
    """The folders of the libraries that a broker has loaded, and its resident set in MB."""
    process = Path(f"/proc/{broker.pid}")
    loaded = {Path(line.split()[-1]) for line in process.joinpath("maps").read_text().splitlines()}
    status = dict(line.split(":", 1) for line in process.joinpath("status").read_text().splitlines())
    return {part for file in loaded for part in file.parts}, int(status["VmRSS"].split()[0]) * 1024 / 1e6


@pytest.mark.processes
@pytest.mark.skipif(not HAS_PROC, reason="only Linux tells what another process takes")
@pytest.mark.parametrize(
    ("flags", "most_mb"),
    [*(PARTS[name] for name in PARTS if name != "nothing"), ALL_OF_THEM],
    ids=[*(name for name in PARTS if name != "nothing"), "all"],
)
def test_a_broker_is_small_with_each_part_and_with_all(
    flags: list[str], most_mb: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with BrokerProcess({"orders": 8}, arguments=flags) as broker:
        packages, resident_mb = look_at(broker)
    assert packages.isdisjoint(LEFT_OUT)
    assert resident_mb <= most_mb


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
    program = (
        "import sys, click; from rmqpull_broker.cli import main\n"
        f"for name in {sorted(COMMANDS.keys() - WITH_ARROW)}: assert main.get_command(click.Context(main), name)\n"
        "print('pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "False\n", done.stderr
