"""The chart of a run: rows per second of the large reads, and the latency of a message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.comparison import CEILING, KAFKA, OURS, Comparison

READS = ("stream-default-row", "stream-body", "batch-default-row")
LATENCIES = ("latency-p50", "latency-p99")
COLOURS = {OURS: "#0b6e4f", KAFKA: "#9aa0a6", CEILING: "#d9dde1"}
_HEIGHT = 0.8
"""The width of a group of bars. With 1 there is no gap between groups."""


def draw(comparisons: Sequence[Comparison], file: Path) -> None:
    """Writes the chart, with the same bytes for the same results."""
    by_name = {comparison.name: comparison for comparison in comparisons}
    panels = [
        (unit, chosen)
        for unit, names in (("million rows per second", READS), ("milliseconds to foreachBatch", LATENCIES))
        if (chosen := [by_name[name] for name in names if name in by_name and by_name[name].figures])
    ]
    with mpl.rc_context({"svg.hashsalt": "rmqpull", "svg.fonttype": "path", "font.size": 9}):
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        ratios = [len(chosen) for _, chosen in panels] or [1]
        axes = figure.subplots(1, max(1, len(panels)), squeeze=False, width_ratios=ratios)[0]
        for index, (unit, chosen) in zip(axes, panels, strict=False):
            _panel(index, unit, chosen, 1e6 if unit.startswith("million") else 1)
        figure.savefig(file, metadata={"Date": None})


def _panel(axes: Any, unit: str, comparisons: Sequence[Comparison], divisor: float) -> None:
    """Draws a group of bars for each workload, with the figures at their ends."""
    names = [name for name in COLOURS if any(name in comparison.figures for comparison in comparisons)]
    height = _HEIGHT / len(names)
    for number, name in enumerate(names):
        measured = [(index, one) for index, one in enumerate(comparisons) if name in one.figures]
        middles = [one.median(name) / divisor for _, one in measured]
        positions = [index + (number - (len(names) - 1) / 2) * height for index, _ in measured]
        bars = axes.barh(positions, middles, height * 0.92, color=COLOURS[name], label=name)
        axes.bar_label(bars, fmt="%.2f" if divisor > 1 else "%.0f", padding=3)
    axes.set_yticks(range(len(comparisons)), [comparison.title.replace(", ", ",\n") for comparison in comparisons])
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
