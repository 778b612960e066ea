"""The chart of the newest whole runs: reads, writes and latency, beside Kafka, and on a real Apache RocketMQ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.comparison import CEILING, KAFKA, OURS, Comparison, comparisons_of

CHART = Path(__file__).parents[1] / "docs" / "images" / "performance.svg"
JAVA = "Java's client"
COLOURS = {OURS: "#0b6e4f", KAFKA: "#9aa0a6", JAVA: "#c77d33", CEILING: "#d9dde1"}
"""The contenders in the chart. The tables have more."""
_HEIGHT = 0.8
"""The width of a group of bars. With 1 there is no gap between groups."""


@dataclass(frozen=True)
class Panel:
    """Groups of bars with one unit: the workloads with these names."""

    title: str
    unit: str
    names: tuple[str, ...]
    divisor: float = 1.0


_MILLION = "million rows per second"
_PANELS = (
    Panel(
        "on rmqpull's broker",
        _MILLION,
        ("stream-default-row", "stream-body", "batch-default-row", "batch-write"),
        1e6,
    ),
    Panel(
        "on Apache RocketMQ's broker",
        _MILLION,
        ("apache-stream-default-row", "apache-stream-body", "apache-write"),
        1e6,
    ),
    Panel("time, on rmqpull's broker", "milliseconds", ("latency-p50", "latency-p99", "stream-write")),
)


def draw_kept(results: Sequence[Path], file: Path = CHART) -> None:
    """Draws the chart of those runs that are there."""
    kept = [json.loads(result.read_text(encoding="utf-8")) for result in results if result.exists()]
    draw([comparison for run in kept for comparison in comparisons_of(run)], file)


def draw(comparisons: Sequence[Comparison], file: Path) -> None:
    """Writes the chart, with the same bytes for the same results."""
    by_name = {comparison.name: comparison for comparison in comparisons}
    panels = [
        (panel, chosen)
        for panel in _PANELS
        if (chosen := [by_name[name] for name in panel.names if name in by_name and by_name[name].figures])
    ]
    with mpl.rc_context({"svg.hashsalt": "rmqpull", "svg.fonttype": "path", "font.size": 8}):
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        axes = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
        for index, (panel, chosen) in zip(axes, panels, strict=False):
            _draw_panel(index, panel, chosen)
        shown = dict[str, Any]()  # the bars of each contender, for one legend of all panels
        for index in axes:
            shown |= {name: bars for bars, name in zip(*index.get_legend_handles_labels(), strict=True)}
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=len(COLOURS), frameon=False)
        figure.savefig(file, metadata={"Date": None})


def _figure_of(comparison: Comparison, name: str) -> float | None:
    """Returns the median of a contender, or None. Java's client is a consumer or a producer."""
    found = [one for one in comparison.figures if one == name or (name == JAVA and one.startswith("Java's "))]
    return comparison.median(found[0]) if found else None


def _draw_panel(axes: Any, panel: Panel, comparisons: Sequence[Comparison]) -> None:
    """Draws a group of bars for each workload, with the figures at their ends."""
    shown = {name: [_figure_of(comparison, name) for comparison in comparisons] for name in COLOURS}
    shown = {name: middles for name, middles in shown.items() if any(middles)}
    height = _HEIGHT / len(shown)
    for number, (name, middles) in enumerate(shown.items()):
        measured = [(index, middle / panel.divisor) for index, middle in enumerate(middles) if middle]
        positions = [index + (number - (len(shown) - 1) / 2) * height for index, _ in measured]
        bars = axes.barh(positions, [middle for _, middle in measured], height * 0.92, color=COLOURS[name], label=name)
        axes.bar_label(bars, fmt="%.2f" if panel.divisor > 1 else "%.0f", padding=3)
    axes.set_title(panel.title, fontsize=9)
    axes.set_yticks(range(len(comparisons)), [comparison.title.replace(", ", ",\n") for comparison in comparisons])
    axes.invert_yaxis()
    axes.set_xlabel(panel.unit)
    axes.margins(x=0.18)
    axes.spines[["top", "right"]].set_visible(False)
