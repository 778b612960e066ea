"""Generates the table of docs/acceptance.md: the cases of Spark's Kafka test suites, and the tests for each here.

usage: python -m scripts.acceptance_tables           writes the table between its markers
       python -m scripts.acceptance_tables --check   exits 1 when it differs

A test carries the number of a case in its name (``test_case_31_…``) or in its docstring ("cases 5 and 6").
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from scripts.acceptance_results import RELEASES, read_results, tell
from scripts.doc_tables import ROOT, table, write_or_check

DOCUMENT = ROOT / "docs" / "acceptance.md"
SUITES = ("client", "connector", "integration", "soak")

CASES: Mapping[int, str] = {
    1: "A query stops promptly, even while a pull is parked",
    2: "Single queues from latest: only later messages are read",
    3: "Single queues from earliest; a restart continues",
    4: "Single queues from offsets, mixed with `earliest` and `latest`",
    5: "Single queues, each from its own time",
    6: "Single queues from one time for all",
    7: "A topic by name from latest; stop, restart, and queues that are added in between",
    8: "The same from earliest, from offsets, from times by topic or queue, and from one time",
    9: "The same five starts by pattern; a new topic that matches is read too",
    10: "No message at or after the time: strategy `error` names the queue and the time, `latest` starts at the end",
    11: "`AvailableNow` with a limit: the expected number of micro-batches; later messages are left for the next run",
    12: "`AvailableNow`: a queue disappears between micro-batches",
    13: "`AvailableNow`: a queue ends before its planned end",
    14: "Queues share `maxOffsetsPerTrigger` by backlog, also after a restart, and `Once` ignores it",
    15: "`minOffsetsPerTrigger`: the first micro-batch runs at once, later ones wait for enough messages or the delay",
    16: "Minimum, maximum and delay together",
    17: "The largest possible limit causes no overflow",
    18: "A union of two limited sources, one without new messages",
    19: "Spark counts as input rows the rows that were read",
    20: "With a pattern, one topic is deleted and another one is created",
    21: "All topics disappear: the offset log never gets empty offsets",
    22: "A topic is created again between micro-batches, with a lower or a higher end",
    23: "Offsets in the checkpoint survive a failed first micro-batch and have a version; a newer version is refused",
    24: "A column works as event time with a watermark",
    25: "A topic is deleted within a micro-batch, with `failOnDataLoss=false`",
    26: "The given consumer group is used; without one, there is a default",
    27: "Both sides of a self-join see the same rows",
    28: "Half messages never appear, committed transactional messages do, and a rollback leaves no hole",
    29: "Messages that were fetched for one range are never returned for another",
    30: "A message without keys, tags and body",
    31: "`minPartitions`: the number of tasks grows, the rows stay the same",
    32: "`minPartitions` unset, 1 and 4; `a`, `1.0`, `0` and `-1` are refused",
    33: "A checkpoint of an older release still works",
    34: "Minimum, maximum and average of offsets behind latest",
    35: "Bad options of a stream are refused by name",
    36: "Settings that the source controls itself are refused",
    37: "Names of options and words are case-insensitive; names of topics are not",
    38: "Columns: names, types, order",
    39: "Random test: topics and queues are added, messages are sent, the query stops and starts; each row occurs once",
    40: "Asynchronous progress tracking loses nothing",
    41: "Batch read from earliest to latest",
    42: "Batch read without options",
    43: "Batch read between offsets, mixed with words",
    44: "Properties are a map; without properties the map is empty",
    45: "Batch read between times by queue, also with offsets for one side",
    46: "Batch read from one time to another",
    47: "Batch read: one queue has no message at or after its starting time",
    48: "Batch read: a queue without a message at or after its ending time is read to its end",
    49: "One time for all ranks above times by queue, and these above offsets",
    50: "A DataFrame twice in one query",
    51: "Messages expire between two actions of one DataFrame",
    52: "Bad options of a batch read are refused by name",
    53: "`minPartitions` in a batch read",
    54: "`failOnDataLoss=false` returns no row twice, in a stream and in a batch read",
    55: "Retention runs while a query reads with `failOnDataLoss=false`",
    56: "Examples of splitting by `minPartitions`",
    57: "Examples of splitting by `maxRecordsPerPartition`, also with `minPartitions`",
    58: "Words and offsets become ranges",
    59: "Queues that do not exist are refused; here you need not name all queues",
    60: "Offsets as JSON: round trip, sorted, stable",
    61: "A single queue that does not exist is refused here; Kafka's source ignores it",
    62: "The column `topic` decides where a row goes",
    63: "The option `topic` decides where all rows go",
    64: "The option wins over the column",
    65: "A write without a topic or without a body is refused when it is planned",
    66: "Columns of a wrong type are refused; the error names the allowed types",
    67: "A write to a topic that does not exist fails and names it",
    68: "Settings that the sink controls itself are refused",
    69: "The progress of a query counts the written rows",
    70: "Many large rows need little memory",
    71: "Batch writes with one property, several and none; everything is read back",
    72: "The queue of a row: the named queue, else the queue of the message group, else the queues in turn",
    73: "A null topic is an error",
    74: "Expressions over the whole row are written",
    75: "Save modes other than append are refused",
}

LIMITED: Mapping[int, str] = {
    27: "In Kafka's source the two sides share a reader and an offset. Here they do if one side computes or renames "
    "all of its columns. Otherwise Spark creates two readers, and a row may reach both in different micro-batches.",
    34: "Python sources have no hook for metrics: `pyspark_rmqpull.lag` computes them from the query's progress.",
    35: "Spark does not tell `load()` that the read is a stream, so ending options are refused when the query starts.",
    40: "The group may be ahead of the checkpoint. "
    "Spark does not support it with Python sinks, files and `foreachBatch`.",
    41: "Spark plans a DataFrame over a Python source once: later actions read the same messages, a new `load()` reads "
    "newer ones.",
    43: "As in case 41, `latest` stays the same for a DataFrame after its first action.",
    51: "As in case 41, the start stays the same. Expired messages are a data loss, and `failOnDataLoss` decides.",
    53: "As in case 41, the ends are resolved once.",
    69: "Rows that `onInvalidRow` skips count too. Spark refuses output mode update for Python sinks.",
}
"""What the Python API prevents in a case. The rest of the case is tested."""

_NUMBERS = re.compile(r"(?<![a-z])cases?[_\s]+(\d+(?:(?:,? and |, | to )\d+)*)", re.IGNORECASE)


def cases_in(text: str) -> set[int]:
    """Returns the numbers in "case 14", "cases 5 and 6", "cases 37, 49, 52", "cases 14 to 18" or ``test_case_31_…``."""
    found: set[int] = set()
    for match in _NUMBERS.finditer(text):
        for part in re.split(r",? and |, ", match[1]):
            first, _, last = part.partition(" to ")
            found.update(range(int(first), int(last or first) + 1))
    return found


def claims(source: str) -> Iterator[tuple[str, int]]:
    """Yields each test with each case in its name or docstring. For a module's docstring the name is ""."""
    module = ast.parse(source)
    yield from (("", case) for case in cases_in(ast.get_docstring(module) or ""))
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            docstring = " ".join((ast.get_docstring(node) or "").split())
            yield from ((node.name, case) for case in cases_in(f"{node.name} {docstring}"))


def proofs() -> dict[int, list[str]]:
    """Returns the tests of each case, as ``integration/test_x.py::test_y``."""
    found: dict[int, set[str]] = defaultdict(set)
    for suite in SUITES:
        for file in (ROOT / "tests" / suite).rglob("test_*.py"):
            path = file.relative_to(ROOT / "tests").as_posix()
            for name, case in claims(file.read_text(encoding="utf-8")):
                found[case].add(f"{path}::{name}" if name else path)
    return {case: sorted(tests) for case, tests in found.items()}


def acceptance() -> str:
    """Returns a row for each case, with how its tests have ended on each release of Spark."""
    tests, results = proofs(), read_results()
    rows = [
        (
            str(case),
            f"{told}. {LIMITED[case]}" if case in LIMITED else f"{told}.",
            "<br>".join(f"`{test}`" for test in tests.get(case, [])),
            *(tell(tests.get(case, []), results.get(release, {"tests": {}})["tests"]) for release in RELEASES),
        )
        for case, told in CASES.items()
    ]
    return table(("case", "what is tested", "tests", *RELEASES), rows)


def releases() -> str:
    """Returns which releases of Spark have run the tests."""
    recorded = read_results()
    known = [recorded[each] for each in RELEASES if each in recorded]
    told = [f"PySpark {each['pyspark']} on Python {each['python']}" for each in known]
    return f"The last columns are those of {', '.join(told)}."


TABLES = {"releases": releases, "acceptance": acceptance}

if __name__ == "__main__":
    write_or_check(DOCUMENT, TABLES)
