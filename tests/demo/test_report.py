"""The bars in the terminal, and the picture."""

from pathlib import Path

import pytest
from rich.console import Console

from demo.flights_data import carrier_summary, read_airlines, read_flights
from demo.report import BAR_CELLS, bar, carrier_table, draw
from demo.streaming import Outage, Run


@pytest.mark.parametrize(
    ("share", "wanted"),
    [(1.0, "█" * BAR_CELLS), (0.5, "█" * (BAR_CELLS // 2)), (0.0, ""), (-0.3, ""), (1.5 / BAR_CELLS, "█▌")],
)
def test_a_bar_is_as_long_as_its_share(share: float, wanted: str) -> None:
    assert bar(share) == wanted


def test_the_table_has_a_line_for_each_carrier() -> None:
    summary = carrier_summary(read_flights(2_000))
    console = Console(width=110, force_terminal=False)
    with console.capture() as capture:
        console.print(carrier_table(summary, read_airlines()))
    lines = capture.get().splitlines()
    assert len(lines) == 1 + summary.num_rows
    assert "ExpressJet Airlines " in capture.get()


@pytest.mark.parametrize(
    "run",
    [
        Run(),
        Run([(0, 0), (1, 900), (9, 2_000)], Outage(1, 2), Outage(3, 8)),
        Run([(0, 0), (2, 900), (9, 2_000)], Outage(2, 3), Outage(4, 8)),
    ],
)
def test_the_picture_is_a_png(tmp_path: Path, run: Run) -> None:
    draw(tmp_path / "flights.png", carrier_summary(read_flights(2_000)), read_airlines(), run)
    assert (tmp_path / "flights.png").read_bytes().startswith(b"\x89PNG")
