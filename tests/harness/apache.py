"""A real Apache RocketMQ for tests: which release, what to do without it, and clusters that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from processes.apache.archiving import make_archives
from processes.apache.cluster import ApacheCluster, make_cluster
from processes.apache.releases import RELEASE_5, RELEASES, Release
from processes.java import COMPILER, find_java
from processes.maven import SoftwareMissing, fetch_jars

MARKER = "apache"
FIXTURE = "apache_release"
OPTION = "--apache-version"
_NEEDED = "A real Apache RocketMQ is needed"

StartApache = Callable[..., ApacheCluster]
"""Takes one of the functions `make_..._cluster`, and its arguments by name, without the folder and the release."""


class ApachePlugin:
    """A pytest plugin: the option that chooses the release, the marker, and a summary of what was skipped."""

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Marks tests by their fixtures."""
        for item in items:
            if FIXTURE in getattr(item, "fixturenames", ()):
                item.add_marker(MARKER)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says which tests were skipped, and why: nobody reads the lines of single tests."""
        skipped = terminalreporter.getreports("skipped")
        reasons = [str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)]
        missing = [reason[reason.index(_NEEDED) :] for reason in reasons if _NEEDED in reason]
        if missing:
            terminalreporter.section("Apache RocketMQ was not tested", sep="!", red=True, bold=True)
            terminalreporter.line(f"Tests that were skipped: {len(missing)}. {' '.join(sorted(set(missing)))}")


def add_option(parser: pytest.Parser) -> None:
    """Adds the option that chooses the release."""
    text = f"the release of Apache RocketMQ to test against. With it, a missing Apache is an error. {[*RELEASES]}"
    parser.addoption(OPTION, choices=[*RELEASES], help=text)


def choose_release(config: pytest.Config) -> Release:
    """Returns the release that the command line asks for, or the newest one.

    If it cannot be had on this machine, the test is skipped; or it fails, when the command line asks for a release.
    """
    asked_for = config.getoption(OPTION)
    release = RELEASES[asked_for] if asked_for else RELEASE_5
    try:
        find_java()
        release.fetch_server_jars()
        release.fetch_client_jars()
        fetch_jars([COMPILER])
    except SoftwareMissing as missing:
        reason = f"{_NEEDED}: {missing}."
        if asked_for:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return release


@contextmanager
def run_apache(release: Release, folder: Path) -> Iterator[StartApache]:
    """Yields a function that starts a cluster. All of them are killed at the end of the block."""
    if release in RELEASES.values():  # of the others, one test starts one cluster
        make_archives(release)
    with ExitStack() as started:
        count = 0

        def start(make: Callable[..., ApacheCluster] = make_cluster, **options: Any) -> ApacheCluster:
            nonlocal count
            count += 1
            return started.enter_context(make(folder / f"cluster-{count}", release=release, **options))

        yield start
