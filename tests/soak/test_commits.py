"""A short soak of commits. `make soak-commits` makes five hundred kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.soak_run import TIMEOUT_S, run_soak_of_commits

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


@pytest.mark.nightly
@pytest.mark.processes
def test_kills_during_commits_lose_and_double_nothing(tmp_path: Path) -> None:
    result = run_soak_of_commits(tmp_path, "--seed", "20", "--kills", "12")
    assert sum(result["kills"].values()) == 12
    assert result["deleted_by_retention"] > 0
