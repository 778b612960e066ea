"""The wheel, installed by pip with today's packages, runs the README's example with each Python and PySpark."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes.environments import REPOSITORY, build_wheel, find_python, install, make_environment, make_layer
from tests.harness.broker_processes import StartBroker
from tests.packages.test_pinned import run

pytestmark = [pytest.mark.packages, pytest.mark.nightly, pytest.mark.processes]

PAIRS = {
    "3.10": ("4.0", "4.1", "4.2"),  # 4.3 needs Python 3.11
    "3.11": ("4.0", "4.1", "4.2", "4.3"),
    "3.12": ("4.3",),
    "3.13": ("4.1", "4.3"),  # AWS Glue 6.0 has the first
    "3.14": ("4.3",),
}
PROGRAM = Path(__file__).parent / "programs" / "spark_readme.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize(
    ("release", "spark"), [(python, spark) for python, sparks in PAIRS.items() for spark in sparks]
)
def test_the_example_of_the_readme_runs(
    wheel: Path, start_broker: StartBroker, tmp_path: Path, release: str, spark: str
) -> None:
    base = find_python(release)
    if base is None:
        pytest.skip(f"Python {release} is not installed")
    python = make_layer(tmp_path / "environment", make_environment("pair", [f"pyspark=={spark}.*"], base))
    install(python, f"rmqpull[spark] @ {wheel.as_uri()}")
    broker = start_broker({"flights": 8})
    done = run(python, str(PROGRAM), str(REPOSITORY / "README.md"), broker.endpoints)
    assert done.returncode == 0, done.stderr
    shown = {tuple(map(str.strip, line.strip("|").split("|"))) for line in done.stdout.splitlines() if "|" in line}
    assert {("UA", "UA1545"), ("AA", "AA1141")} <= shown
