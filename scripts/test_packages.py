"""Runs tests of proto, client and broker with other releases of the packages that rmqpull needs.

usage: python -m scripts.test_packages SET... [--all]

``oldest`` has exactly the oldest releases that setup.py allows, on Python 3.10 if this machine has it. ``protobuf-5``
to ``protobuf-7`` have the newest release of this major, and ``pre-releases`` those of protobuf, gRPC and Arrow. With
``--all`` all tests run that start no process, otherwise those that notice most.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from processes.environments import REPOSITORY, build_wheel, find_python, freeze, install, list_oldest, make_environment

OLDEST_PYTHON = "3.10"
EXTRAS = ("remoting", "tls", "testcontainers")
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "pytest-rerunfailures", "hypothesis")
SETS = {
    "oldest": (),
    "protobuf-5": ("protobuf==5.*",),
    "protobuf-6": ("protobuf==6.*",),
    "protobuf-7": ("protobuf==7.*",),
    # A bound that is a pre-release lets pip choose pre-releases.
    "pre-releases": ("protobuf>=7.0rc1", "grpcio>=1.67rc1", "pyarrow>=18.0rc1"),
}
"""What each set asks for, besides the newest release of everything else."""
JUDGES = ("grpcio-health-checking", "grpcio-reflection")
"""gRPC's own clients, with which tests compare. Releases go with those of gRPC."""
SHOWN = ("grpcio", "numpy", "protobuf", "pyarrow")
MOST_TELLING = (
    "tests/packages",
    "tests/proto",
    "tests/client/transports",
    "tests/broker/core/filters",
    "tests/broker/core/messages",
    "tests/broker/server/grpc",
)
LEFT_OUT = (
    "tests/broker/core/filters/test_budget.py",
    "tests/client/transports/grpc/test_reading_ahead_flow_control.py",
    "tests/client/transports/remoting/network",
)
"""What takes long there, and notices little: plain sockets, waits, and sums of steps. ``--all`` runs it, too."""
ALL = ("tests/packages", "tests/proto", "tests/client", "tests/broker")


def provide(name: str, wheel: Path) -> Path:
    """Returns the Python of an environment with a set of packages and rmqpull. Raises SoftwareMissing."""
    if name == "oldest":
        python = find_python(OLDEST_PYTHON) or sys.executable
        oldest = list_oldest(EXTRAS, python)
        [grpc] = (each.partition("==")[2] for each in oldest if each.startswith("grpcio=="))
        made = make_environment(name, [*oldest, *(f"{each}=={grpc}" for each in JUDGES), *TOOLS], python)
        install(made, "--no-deps", "--force-reinstall", wheel)
        return made
    made = make_environment(name, [*SETS[name], *JUDGES, *TOOLS], is_new=True)
    install(made, f"{wheel}[{','.join(EXTRAS)}]")
    return made


def run_tests(python: Path, *, is_whole: bool) -> int:
    """Runs tests with an environment's packages. Returns pytest's exit code."""
    options = ["--numprocesses", "2", "--dist", "worksteal", "--hypothesis-profile", "fast", "-p", "no:cacheprovider"]
    chosen = "not processes and not large and not nightly or warnings_at_import"
    left_out = [path for path in sorted(REPOSITORY.glob("tests/**/*.py")) if _uses_spark(path)]
    left_out += [] if is_whole else [REPOSITORY / path for path in LEFT_OUT]
    command = [str(python), "-m", "pytest", *options, "-m", chosen, *(f"--ignore={path}" for path in left_out)]
    command += ALL if is_whole else MOST_TELLING
    return subprocess.run(command, cwd=REPOSITORY, env=os.environ, check=False).returncode


def _uses_spark(test: Path) -> bool:
    return bool(re.search(r"^(?:from|import) pyspark", test.read_text(encoding="utf-8"), re.MULTILINE))


@click.command()
@click.argument("names", metavar="SET...", type=click.Choice(list(SETS)), nargs=-1, required=True)
@click.option("--all", "is_whole", is_flag=True, help="Run all tests that start no process.")
def main(names: tuple[str, ...], is_whole: bool) -> None:
    """Run tests with these sets of packages, and exit with 1 if any has failed."""
    codes = []
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        for name in names:
            python = provide(name, wheel)
            installed = freeze(python)
            found = ", ".join(f"{each} {installed[each]}" for each in SHOWN)
            click.echo(f"test-packages: {name}: {subprocess.getoutput(f'{python} -V')}, {found}")
            codes.append(run_tests(python, is_whole=is_whole))
    sys.exit(any(codes))


if __name__ == "__main__":
    main()
