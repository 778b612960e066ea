"""The table of docs/acceptance.md: what Spark's Kafka suites hold of source and sink, and the tests that hold it here.

usage: python -m scripts.acceptance_tables           writes it between its markers
       python -m scripts.acceptance_tables --check   exits 1 when it differs

A test carries the number of a case in its name (``test_case_31_…``) or in its docstring ("cases 5 and 6").
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from scripts.readme_tables import ROOT, table, write_or_check

DOCUMENT = ROOT / "docs" / "acceptance.md"
SUITES = ("client", "connector", "integration", "soak")

CASES: Mapping[int, str] = {
    1: "A query stops in time, also while a pull is parked",
    2: "Single queues from latest: only what comes later",
    3: "Single queues from earliest; a restart goes on",
    4: "Single queues from offsets, mixed with `earliest` and `latest`",
    5: "Single queues from a time for each",
    6: "Single queues from one time for all",
    7: "A topic by name from latest; stop, restart, and queues that are added meanwhile",
    8: "The same from earliest, from offsets, from times by topic or queue, and from one time",
    9: "The same five starts by pattern; a new topic that matches comes in",
    10: "No message at or after the time: strategy `error` names queue and time, `latest` begins at the end",
    11: "`AvailableNow` with a limit: so many batches and no more; what comes meanwhile is left for the next run",
    12: "`AvailableNow`: a queue vanishes between batches",
    13: "`AvailableNow`: a queue ends before its planned end",
    14: "`maxOffsetsPerTrigger` is shared by backlog, goes on after a restart, and `Once` ignores it",
    15: "`minOffsetsPerTrigger`: the first batch always, then enough or the delay",
    16: "Minimum, maximum and delay together",
    17: "The largest limit is no overflow",
    18: "A union of two limited sources, one without news",
    19: "The input rows that Spark counts are those that were read",
    20: "By pattern, a topic is deleted while another one comes",
    21: "No topics any more: the offset log never gets an empty position",
    22: "A topic is created again between batches, with a lower or a higher end",
    23: "Offsets in the checkpoint: they outlast a failed first batch, have a version, and a newer one is refused",
    24: "A column works as event time with a watermark",
    25: "A topic is deleted within a batch, with `failOnDataLoss=false`",
    26: "The consumer group that is given is used; else one is derived",
    27: "Both sides of a self-join see the same rows",
    28: "Half messages of transactions never appear, committed ones do, and what was rolled back leaves no gap",
    29: "What was fetched for an earlier range is never served for another",
    30: "A message without keys, tags and body",
    31: "`minPartitions`: so many tasks, the same rows",
    32: "`minPartitions` unset, 1 and 4; `a`, `1.0`, `0` and `-1` are refused",
    33: "A checkpoint of an older release goes on",
    34: "Minimum, maximum and average of offsets behind latest",
    35: "Bad options of a stream are refused by name",
    36: "Settings that the source owns are refused",
    37: "Names of options and words in any case; names of topics as they are",
    38: "Columns: names, types, order",
    39: "Random: topics and queues are added, messages sent, the query stopped and started; each row once",
    40: "Asynchronous progress tracking loses nothing",
    41: "Batch from earliest to latest",
    42: "Batch without options",
    43: "Batch from and to offsets, mixed with words",
    44: "Properties as a map; none is an empty map",
    45: "Batch from and to times by queue, also with offsets for one side",
    46: "Batch from and to one time",
    47: "Batch: one queue has no message at its starting time",
    48: "Batch: one queue has no message at its ending time: to its end",
    49: "A time for all ranks above times by queue, and those above offsets",
    50: "A DataFrame twice in one query",
    51: "Messages age out between two actions of one DataFrame",
    52: "Bad options of a batch are refused by name",
    53: "`minPartitions` in a batch",
    54: "`failOnDataLoss=false` gives no row twice, in a stream and in a batch",
    55: "Retention runs while a query reads with `failOnDataLoss=false`",
    56: "The vectors of cutting by `minPartitions`",
    57: "The vectors of cutting by `maxRecordsPerPartition`, also with `minPartitions`",
    58: "Words and offsets become ranges",
    59: "Queues that do not exist are refused; here not all must be named",
    60: "Offsets as JSON: round trip, sorted, stable",
    61: "A single queue that does not exist; refused here, where Kafka's source skips it",
    62: "The column `topic` decides where a row goes",
    63: "The option `topic` decides where all rows go",
    64: "The option wins over the column",
    65: "Rows without a topic or without a body are refused when the write is planned",
    66: "Columns of a wrong type are refused with those that they may have",
    67: "A write to a topic that does not exist fails and names it",
    68: "Settings that the sink owns are refused",
    69: "The progress of a query counts the rows that were written",
    70: "Many large rows pass through little memory",
    71: "A batch write: one property, several, none; all is read back",
    72: "A queue that is named, then the message group, then the queues in turn",
    73: "A null topic is an error",
    74: "Expressions over the whole row are written",
    75: "Save modes other than append are refused",
}

LIMITED: Mapping[int, str] = {
    27: "Kafka's sides share a reader and an offset. Here they do when a side computes or renames all of its columns; "
    "otherwise Spark makes two readers, and a row may come to the two sides in different batches.",
    34: "Python sources have no hook for metrics: `pyspark_rmqpull.lag` computes them from the query's progress.",
    35: "In `load()` Spark does not say that it is a stream: ending options are refused when the query starts.",
    40: "The group may be ahead of the checkpoint. "
    "Spark refuses it with sinks that are written in Python, and with files and `foreachBatch`.",
    41: "Spark plans a DataFrame over a Python source once: later actions read the same, a new `load()` sees more.",
    43: "As case 41: `latest` does not move for a DataFrame that was used.",
    51: "As case 41: the start does not move by itself; what is gone is a loss, and `failOnDataLoss` decides.",
    53: "As case 41: ends are numbers of one look at the broker.",
    69: "Rows that `onInvalidRow` leaves out are counted too. "
    "Spark refuses output mode update for sinks that are written in Python.",
}
"""What the Python API forbids of a case; the rest of it is tested. Of none it forbids everything."""

_NUMBERS = re.compile(r"(?<![a-z])cases?[_\s]+(\d+(?:(?:,? and |, | to )\d+)*)", re.IGNORECASE)


def cases_in(text: str) -> set[int]:
    """The numbers of "case 14", "cases 5 and 6", "cases 37, 49, 52", "cases 14 to 18" or ``test_case_31_…``."""
    found: set[int] = set()
    for match in _NUMBERS.finditer(text):
        for part in re.split(r",? and |, ", match[1]):
            first, _, last = part.partition(" to ")
            found.update(range(int(first), int(last or first) + 1))
    return found


def claims(source: str) -> Iterator[tuple[str, int]]:
    """Each test with each case that its name or docstring carries; the name is "" where the module's docstring does."""
    module = ast.parse(source)
    yield from (("", case) for case in cases_in(ast.get_docstring(module) or ""))
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            docstring = " ".join((ast.get_docstring(node) or "").split())
            yield from ((node.name, case) for case in cases_in(f"{node.name} {docstring}"))


def proofs() -> dict[int, list[str]]:
    """The tests of each case, as ``integration/test_x.py::test_y``."""
    found: dict[int, set[str]] = defaultdict(set)
    for suite in SUITES:
        for file in (ROOT / "tests" / suite).rglob("test_*.py"):
            path = file.relative_to(ROOT / "tests").as_posix()
            for name, case in claims(file.read_text(encoding="utf-8")):
                found[case].add(f"{path}::{name}" if name else path)
    return {case: sorted(tests) for case, tests in found.items()}


def acceptance() -> str:
    """A row for each case."""
    tests = proofs()
    rows = [
        (
            str(case),
            f"{told}. {LIMITED[case]}" if case in LIMITED else f"{told}.",
            "<br>".join(f"`{test}`" for test in tests.get(case, [])),
        )
        for case, told in CASES.items()
    ]
    return table(("case", "what is held", "tests"), rows)


TABLES = {"acceptance": acceptance}

if __name__ == "__main__":
    write_or_check(DOCUMENT, TABLES)
