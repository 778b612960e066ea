"""The map of options in docs/architecture.md: each file that it names reads the option, and no option is left out."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from pyspark_rmqpull.options.sink import SINK_OPTIONS
from pyspark_rmqpull.options.source import OPTIONS, SourceOptions
from rmqpull_client.errors import OptionError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
TRANSPORTS = ROOT / "connector" / "rmqpull_client" / "transports"
FOLDERS = {
    "over gRPC": "grpc",
    "columnar": "grpc/columnar",
    "standard": "grpc/standard",
    "over remoting": "remoting",
    "remoting": "remoting",
}
"""The folder of a transport, by the head of its column."""
NOT_USED, CANNOT_BE_SET = "not used", "cannot be set"
OF_SINK = "options of the sink"
SERVERS = {"over gRPC": {"endpoints": "127.0.0.1:8081"}, "over remoting": {"nameServers": "127.0.0.1:9876"}}
EXAMPLES = {
    "endpoints": {"endpoints": "127.0.0.1:8081"},
    "nameServers": {"nameServers": "127.0.0.1:9876"},
    "brokerAddresses": {"brokerAddresses": "broker-a=127.0.0.1:10911"},
    "pollNameServerInterval": {"pollNameServerInterval": "1000"},
    "parentTopic": {"topic": "%LMQ%one", "parentTopic": "orders"},
}
"""How to set the options that cannot be set with every kind of server."""


class Row(NamedTuple):
    """Options, the names under which files read them (one name for all, or one for each), and cells by their heads."""

    table: str
    options: list[str]
    names: list[str]
    cells: Mapping[str, str]


def read_map(page: str) -> list[Row]:
    """The rows of all tables below the heading."""
    section = page.partition("### Where an option takes effect\n")[2].partition("\n## ")[0]
    rows: list[Row] = []
    head: list[str] = []
    for line in section.splitlines():
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not head:
            head = cells
        elif not cells[0].startswith("---"):
            options, names = (re.findall(r"`(\w+)`", cell) for cell in cells[:2])
            rows.append(Row(head[0], options, names, dict(zip(head[2:], cells[2:], strict=True))))
    return rows


@cache
def read_names(file: Path) -> frozenset[str]:
    """The attributes that a module reads, and the parameters of its functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return frozenset(found)


def complaints(rows: list[Row]) -> Iterator[str]:
    """What is wrong with the map."""
    shared = {option.name for option in OPTIONS} - {"topic"}
    sides = {
        "source": [option.name for option in OPTIONS],
        "sink": [option.name for option in SINK_OPTIONS if option.name not in shared],
    }
    for side, declared in sides.items():
        named = Counter(name for row in rows if (row.table == OF_SINK) == (side == "sink") for name in row.options)
        yield from (f"{name} of the {side} is left out" for name in Counter(declared) - named)
        yield from (f"{name} of the {side} is not declared, or named twice" for name in named - Counter(declared))
    for row in rows:
        if len(row.names) not in (1, len(row.options)):
            yield f"{row.options} have {len(row.names)} names"
        for head, cell in row.cells.items():
            yield from complaints_of_cell(row, head, cell)


def is_refused(option: str, head: str) -> bool:
    """Whether an option cannot be set with a kind of server."""
    try:
        SourceOptions.from_options({"topic": "orders", **SERVERS[head], **EXAMPLES[option]})
    except OptionError:
        return True
    return False


def complaints_of_cell(row: Row, head: str, cell: str) -> Iterator[str]:
    """What is wrong with a place of some options."""
    links = re.findall(r"\]\(\.\./([^)]+)\)", cell)
    if cell == NOT_USED:
        for file in sorted((TRANSPORTS / FOLDERS[head]).rglob("*.py")):
            yield from (f"{head} uses {name}, in {file.name}" for name in row.names if name in read_names(file))
    elif cell == CANNOT_BE_SET:
        yield from (f"{option} can be set {head}" for option in row.options if not is_refused(option, head))
    elif not links:
        yield f"{row.options} have no file {head}"
    else:
        refused = [option for option in row.options if option in EXAMPLES and head in SERVERS]
        yield from (f"{option} cannot be set {head}" for option in refused if is_refused(option, head))
    for link in links:
        if not (ROOT / link).is_file():
            yield f"{link} does not exist"
        else:
            yield from (f"{link} does not read {name}" for name in row.names if name not in read_names(ROOT / link))


def test_the_map_is_right() -> None:
    rows = read_map(PAGE.read_text(encoding="utf-8"))
    assert {row.table for row in rows} == {
        "options of the connection",
        "options of pulls",
        "other options of the source",
        OF_SINK,
    }
    assert list(complaints(rows)) == []


COLUMNAR = "rmqpull_client/transports/grpc/columnar/client.py"


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("| `idleWaitMs` |", "| `idleWait` |", "idleWaitMs of the source is left out"),
        ("| `idleWaitMs` |", "| `idleWait` |", "idleWait of the source is not declared, or named twice"),
        ("| `batchBytes`, ", "| `batchBytes`, `topic`, ", "topic of the sink is not declared, or named twice"),
        ("| `bodies` | `bodies` |", "| `bodies` | `body_form` |", "row_columns.py does not read body_form"),
        ("reading/pull_plan.py)", "reading/read.py)", "reading/read.py does not read pull_batch_size"),
        ("reading/pull_plan.py)", "reading/pull_plans.py)", "reading/pull_plans.py does not exist"),
        (f"[`{COLUMNAR}`](../connector/{COLUMNAR})", "", "['pullThresholdSizeForTopic'] have no file columnar"),
        (
            f"[`{COLUMNAR}`](../connector/{COLUMNAR})",
            "not used",
            "columnar uses pull_threshold_size_for_topic, in client.py",
        ),
        ("`endpoints` | `addresses` |", "`endpoints` | `addresses`, `hosts` |", "['endpoints'] have 2 names"),
        (
            "| `name_servers` | cannot be set |",
            "| `name_servers` | somewhere |",
            "['nameServers'] have no file over gRPC",
        ),
    ],
)
def test_a_wrong_map_is_noticed(right: str, wrong: str, complaint: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert right in page
    found = list(complaints(read_map(page.replace(right, wrong))))
    assert any(each.endswith(complaint) for each in found), found


def test_what_cannot_be_set_is_compared_with_the_refusals() -> None:
    row = Row("options of the connection", ["nameServers"], ["name_servers"], {})
    cluster = "[cluster](../connector/rmqpull_client/transports/remoting/network/cluster.py)"
    assert list(complaints_of_cell(row, "over gRPC", CANNOT_BE_SET)) == []
    assert list(complaints_of_cell(row, "over remoting", cluster)) == []
    assert list(complaints_of_cell(row, "over remoting", CANNOT_BE_SET)) == ["nameServers can be set over remoting"]
    assert list(complaints_of_cell(row, "over gRPC", cluster)) == ["nameServers cannot be set over gRPC"]
