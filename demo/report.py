"""Shows the result: a table with bars in the terminal, and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.ticker import StrMethodFormatter
from rich.table import Table
from rich.text import Text

from demo.streaming import Outage, Run

BAR_CELLS = 20
EIGHTHS = " ▏▎▍▌▋▊▉"

INK, MUTED, GRID = "#1f2933", "#6b7785", "#e4e7eb"
LABEL: dict[str, Any] = {"textcoords": "offset points", "va": "center_baseline", "fontweight": "bold"}
LABEL_WIDTH = 0.2
"""The part of the axis that the label of a kill takes."""
BLUE, ORANGE, RED = "#2f6db5", "#d9822b", "#c23030"


def carrier_table(summary: pa.Table, airlines: Mapping[str, str]) -> Table:
    """Returns a table of carriers by their mean departure delay, with a bar for each."""
    rows = _by_delay(summary)
    longest = max((row["dep_delay"] for row in rows), default=1.0)
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("")
    table.add_column("carrier", no_wrap=True)
    for title in ("flights", "arrival", "departure"):
        table.add_column(title, justify="right")
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_row(
            row["carrier"],
            _short(airlines.get(row["carrier"], "")),
            f"{row['flights']:,}",
            f"{row['arr_delay']:+.1f}" if row["arr_delay"] is not None else "",
            f"{row['dep_delay']:+.1f}",
            Text(bar(row["dep_delay"] / longest), style="blue"),
        )
    return table


def bar(share: float) -> str:
    """Returns a bar of `share` of the full length, exact to an eighth of a cell."""
    full, rest = divmod(round(max(share, 0.0) * BAR_CELLS * 8), 8)
    return "█" * full + EIGHTHS[rest].strip()


def draw(path: Path, summary: pa.Table, airlines: Mapping[str, str], run: Run) -> None:
    """Draws the picture: the delays of the carriers, and the rows over time."""
    mpl.use("Agg")
    with plt.rc_context({"text.color": INK, "xtick.color": MUTED, "ytick.color": INK, "axes.edgecolor": GRID}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6.2), width_ratios=[1, 1.05])
        figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.12)
        _draw_delays(left, summary, airlines)
        _draw_arrival(right, run)
        figure.savefig(path, dpi=150, facecolor="white")
        plt.close(figure)


def _by_delay(summary: pa.Table) -> list[dict[str, Any]]:
    rows = [row for row in summary.to_pylist() if row["dep_delay"] is not None]
    return sorted(rows, key=lambda row: row["dep_delay"], reverse=True)


def _draw_delays(axes: Axes, summary: pa.Table, airlines: Mapping[str, str]) -> None:
    rows = _by_delay(summary)[::-1]
    names = [_short(airlines.get(row["carrier"], row["carrier"])) for row in rows]
    delays = [row["dep_delay"] for row in rows]
    axes.barh(names, delays, color=BLUE, height=0.68)
    longest = max(1.0, *delays)
    for y, row in enumerate(rows):
        axes.annotate(f"{row['dep_delay']:.1f}", (max(row["dep_delay"], 0), y), (5, 0), **LABEL)
        axes.text(longest * 1.3, y, f"{row['flights']:,}", va="center_baseline", ha="right", color=MUTED)
    axes.text(1, 1.02, "flights", transform=axes.transAxes, ha="right", color=MUTED)
    _title(axes, "Mean departure delay by carrier", "minutes")
    axes.set_xlim(min(0.0, *delays), longest * 1.3)
    axes.xaxis.set_visible(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.margins(y=0.01)


def _draw_arrival(axes: Axes, run: Run) -> None:
    seconds, rows = zip(*run.arrived, strict=True)
    axes.step(seconds, rows, where="post", color=BLUE, linewidth=2)
    axes.plot(seconds[1:], rows[1:], "o", color=BLUE, markersize=4.5)
    total = max(1, *rows)
    if run.broker_outage:
        _draw_outage(axes, run.broker_outage, ORANGE)
        # On the left, since the label of the job may be close on the right, unless there is no room.
        is_early = run.broker_outage.killed < seconds[-1] * LABEL_WIDTH
        axes.annotate(
            "broker killed,\nstarted again",
            (run.broker_outage.killed, total),
            (6 if is_early else -6, 0),
            color=ORANGE,
            ha="left" if is_early else "right",
            fontsize=9,
            **LABEL,
        )
    if run.job_outage:
        _draw_outage(axes, run.job_outage, RED)
        point = (run.job_outage.killed, total)
        axes.annotate("job killed,\nstarted again", point, (6, 0), color=RED, fontsize=9, **LABEL)
    _title(axes, "Flights streamed into the result", "each dot is a micro-batch; shaded until the process is back")
    axes.set_xlabel("seconds since the stream began", color=MUTED)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylim(0, total * 1.08)
    axes.set_xlim(left=0)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


def _draw_outage(axes: Axes, outage: Outage, colour: str) -> None:
    axes.axvspan(outage.killed, outage.back, color=colour, alpha=0.13, linewidth=0, zorder=0.5)
    axes.axvline(outage.killed, color=colour, linewidth=1.2, zorder=0.6)


def _title(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=24)
    axes.text(0, 1.02, subtitle, transform=axes.transAxes, color=MUTED)


def _short(airline: str) -> str:
    """Returns a company's name without "Inc." and the like."""
    for ending in (" Inc.", " Co.", " Corporation"):
        airline = airline.removesuffix(ending)
    return airline
