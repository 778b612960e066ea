"""The output of the demo: colours and progress bars in a terminal, otherwise plain lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

PLAIN_WIDTH = 110
PLAIN_LINES = 4


class Bar:
    """A progress bar; without a terminal, some lines."""

    def __init__(self, console: Console, title: str, total: int, moving: Progress | None, quiet: bool) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._done = 0
        self._moving = moving
        self._quiet = quiet
        self._task: TaskID | None = moving.add_task(title, total=total) if moving else None

    def advance(self, rows: int) -> None:
        before, self._done = self._done, self._done + rows
        if self._moving and self._task is not None:
            self._moving.advance(self._task, rows)
        elif not self._quiet and self._done * PLAIN_LINES // self._total > before * PLAIN_LINES // self._total:
            self._console.print(f"    {self._title} {self._done:>9,} of {self._total:,}")


class Screen:
    """The terminal, or a file in its place."""

    def __init__(self) -> None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a check mark must not end the demo
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console.width = PLAIN_WIDTH

    def step(self, number: int, text: str) -> None:
        self._print(f"[bold cyan]{number}[/]  [bold]{text}[/]", before="\n")

    def line(self, text: str) -> None:
        self._print(f"   {text}")

    def alarm(self, text: str) -> None:
        """Prints that something was killed."""
        self._print(f"   [bold red]✖ {text}[/]")

    def recovered(self, text: str) -> None:
        self._print(f"   [bold green]↻[/] {text}")

    def check(self, name: str, mismatches: list[str]) -> None:
        """Prints a check mark, or the mismatches."""
        self._print(f"   [bold red]✘ {name}[/]" if mismatches else f"   [bold green]✔[/] {name}")
        for mismatch in mismatches:
            self._print(f"     [red]{mismatch}[/]")

    def table(self, table: Table) -> None:
        self.console.print(Padding(table, (0, 0, 1, 2), expand=False))

    def verdict(self, failed: int, seconds: float) -> None:
        text = f"[bold red]Failed checks: {failed}[/]" if failed else "[bold green]All checks passed[/]"
        self._print(f"{text}, after {seconds:.0f} s", before="\n")

    def error(self, text: str) -> None:
        self.console.print(f"\n{text}", style="bold red", markup=False, soft_wrap=True)

    @contextmanager
    def bar(self, title: str, total: int, quiet: bool = False) -> Iterator[Bar]:
        """A progress bar below other output. Without a terminal, `quiet` prints no lines of its own."""
        if not self.console.is_terminal:
            yield Bar(self.console, title, total, None, quiet)
            return
        columns = (TextColumn("   {task.description}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as moving:
            yield Bar(self.console, title, total, moving, quiet)

    def _print(self, text: str, before: str = "") -> None:
        # No wrapping: nobody can copy a path from a line that is cut in the middle.
        self.console.print(before + text, soft_wrap=True)
