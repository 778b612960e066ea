"""A progress bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


@contextmanager
def byte_progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Shows a bar that is advanced by bytes; without a total it only moves."""
    parts = (TextColumn("sending"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sending", total=total)
        yield lambda byte_count: progress.advance(task, byte_count)
