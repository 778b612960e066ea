"""The runs of docs/soak.md can be looked up: each names a commit of this history."""

from __future__ import annotations

import subprocess

import pytest

from soak.results import REPOSITORY
from soak.runs import DOCS, JSON_FILES, read_runs

pytestmark = pytest.mark.processes


def ask_git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(REPOSITORY), *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", JSON_FILES)
def test_each_run_names_a_commit_of_this_history(name: str) -> None:
    try:
        shallow = ask_git("rev-parse", "--is-shallow-repository")
    except OSError:
        pytest.skip("git is not installed")
    if shallow.stdout.strip() != "false":
        pytest.skip("the folder is no clone with its whole history")
    for run in read_runs(name, DOCS):
        commit = run["code"]["commit"]
        assert ask_git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, commit
