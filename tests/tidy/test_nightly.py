"""The scripts in .ci: CONTRIBUTING.md names the nightly parts, and a table comes at the end, also after a failure."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SCRIPT = REPOSITORY / ".ci" / "nightly"
RUN_WITHIN_S = 60
LEFT_OUT = 77


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment}
    return subprocess.run(
        command, cwd=REPOSITORY, env=given, capture_output=True, text=True, timeout=RUN_WITHIN_S, check=False
    )


def list_parts() -> list[str]:
    """The names at the beginning of the lines that the script has for its parts."""
    parts = SCRIPT.read_text(encoding="utf-8").partition("\nPARTS='\n")[2].partition("\n'\n")[0]
    return [line.partition(":")[0] for line in parts.splitlines()]


@pytest.mark.processes
def test_the_page_names_the_parts() -> None:
    listed = run("bash", str(SCRIPT), "--list").stdout.splitlines()
    assert [line.partition(":")[0] for line in listed] == list_parts()
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("### The nightly parts")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(part for row in rows for part in re.findall(r"`([^`]+)`", row)) == sorted(list_parts())


@pytest.mark.processes
@pytest.mark.parametrize("part", list_parts())
def test_each_part_begins_with_a_set_up(tmp_path: Path, part: str) -> None:
    """Programs that end a part at once stand for the first ones that it needs."""
    for name in ("make", "git", "rm"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {name} is run\nexit 9\n", encoding="utf-8")
        program.chmod(0o755)
    done = run("bash", str(SCRIPT), "--part", part, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    if "is not installed" in done.stdout:
        assert done.returncode == LEFT_OUT
        assert part.startswith("python-")
    else:
        assert done.returncode == 9, done
        assert re.match(r"(make|rm) is run\n", done.stdout)


@pytest.mark.processes
def test_an_unknown_part_is_refused_before_anything_runs() -> None:
    done = run("bash", str(SCRIPT), "audit", "fuz")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no part fuz. The parts are: apache-4.9 " in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize(
    ("commands", "code", "rows"),
    [
        (["true", "true"], 0, ["true ok", "true ok", "all ok"]),
        (["true", "false", "true"], 1, ["true ok", "false failed (1)", "all failed"]),
        (["cannot", "true"], 0, ["cannot left out", "true ok", "all ok"]),
        (["news", "true"], 0, ["news may fail", "true ok", "all ok"]),
        (["late"], 124, ["late too long", "all failed"]),
        (["exit 3"], 3, ["exit 3 stopped", "all failed"]),
    ],
)
def test_a_table_of_the_steps_is_the_last_that_is_printed(commands: list[str], code: int, rows: list[str]) -> None:
    steps = "\n".join(f'run_step "{command}" {command}' for command in commands)
    kinds = "cannot() { return 77; }\nnews() { return 78; }\nlate() { run_limited 0.1 sleep 60; }"
    program = f"set -e\nsource .ci/steps\n{kinds}\n{steps}"
    done = run("bash", "-c", program)
    assert done.returncode == code, done
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert [f"{name} {result}" for name, result, _ in found[2:]] == rows
    assert all(re.fullmatch(r"\d+:\d\d", time) for _, _, time in found[2:])
