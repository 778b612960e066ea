"""The modules whose tests must notice every change, and these tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tests.tidy.test_mirror import COVERED, REPOSITORY, SOURCES, find_source, list_tests

_SINK = "connector/pyspark_rmqpull/sink"
MODULES: Sequence[str] = (
    "connector/pyspark_rmqpull/planning/offsets.py",
    "connector/pyspark_rmqpull/planning/micro_batch.py",
    "connector/pyspark_rmqpull/progress/group_progress.py",
    "connector/pyspark_rmqpull/reading/backlog.py",
    "connector/rmqpull_client/transports/grpc/standard/rows.py",
    *sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / _SINK).glob("[!_]*.py")),
    "broker_emulator/rmqpull_broker/core/sending/commits.py",
    "broker_emulator/rmqpull_broker/core/sending/stage_commands.py",
    "broker_emulator/rmqpull_broker/core/popping/pop.py",
    "broker_emulator/rmqpull_broker/core/pulling/checks.py",
    "broker_emulator/rmqpull_broker/store/disk_storage.py",
)
"""A change of one of them may lose or double messages."""


@lru_cache
def find_tests(module: str) -> tuple[tuple[str, ...], ...]:
    """Returns the tests of a module, then those of the folder that mirrors its package, and then those of its area."""
    own = [path for path, source in _find_sources().items() if source == (REPOSITORY / module).with_suffix("")]
    if module in COVERED:
        own.append(REPOSITORY / "tests" / COVERED[module].by)
    area, root = next((area, root) for area, root in SOURCES.items() if module.startswith(root))
    mirrored = Path("tests") / area / Path(module).relative_to(root).parent
    wider = REPOSITORY / (mirrored.parent if mirrored.parent != Path("tests") else mirrored)
    steps = [tuple(str(path.relative_to(REPOSITORY)) for path in own), (str(wider.relative_to(REPOSITORY)),)]
    return tuple(step for step in dict.fromkeys((*steps, (f"tests/{area}",))) if step)


@lru_cache
def _find_sources() -> dict[Path, Path | None]:
    return {path: find_source(path) for path in list_tests()}
