"""The kinds of servers that the same tests run against, and what each of them cannot do.

A kind is ``apache``, ``remoting`` (a broker of this project that is reached by the remoting protocol), or the
extensions that a broker of this project offers. A test that needs more than every server has says so:
``@needs("faults")``. It does not run against the kinds that :data:`LACKS` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

APACHE = "apache"
APACHE_4 = "apache 4.9"
STANDARD = "none"
COLUMNS = "columns"
COLUMNS_ADMIN = "columns,admin"
STAGES = "columns,admin,stages"
REMOTING = "remoting"
READING = (COLUMNS, STANDARD, REMOTING, APACHE)
"""The kinds that Spark reads from: one of each transport."""
WRITING = (STAGES, COLUMNS_ADMIN, STANDARD, REMOTING, APACHE)
"""The kinds that Spark writes to."""

_NO_EXTENSION = "it has no extensions"
_NO_RPCS = "its requests are no RPCs, which these tests name"
_NOT_HERE = "it runs in another process, without a way to"
_LATE_SIZES = "it tells the size of a message only with the message"
_BY_CONNECTION = "it takes the born host from the connection"
_OVER_GRPC = "the example reads over gRPC"
_BATCH_PER_QUEUE = "batches of rows take turns, because a batch is for one queue"
LACKS: dict[str, dict[str, str]] = {
    "sizes": {STANDARD: _NO_EXTENSION, REMOTING: _LATE_SIZES, APACHE: _LATE_SIZES},
    "stages": {
        STANDARD: _NO_EXTENSION,
        COLUMNS_ADMIN: _NO_EXTENSION,
        REMOTING: "the protocol cannot commit a whole batch",
        APACHE: "it cannot commit a whole batch",
    },
    "choice of queues": {STANDARD: "it chooses the queues itself"},
    "faults": {REMOTING: _NO_RPCS, APACHE: f"{_NOT_HERE} make it refuse, delay or hold chosen requests"},
    "held pulls": {REMOTING: _NO_RPCS},
    "TLS and keys": {REMOTING: "the proxy of these tests speaks gRPC, and the broker itself checks no keys"},
    "manual clock": {APACHE: f"{_NOT_HERE} change its time"},
    "counts of requests": {REMOTING: _NO_RPCS, APACHE: f"{_NOT_HERE} see which requests it got"},
    "empty bodies": {
        REMOTING: "clients of the protocol are refused them (rules 3.10.1)",
        APACHE: "it refuses them (rules 3.10.1), and its files cannot be changed",
    },
    "born hosts of clients": {REMOTING: _BY_CONNECTION, APACHE: _BY_CONNECTION},
    "endpoints": {REMOTING: _OVER_GRPC, APACHE: _OVER_GRPC},
    "message types": {
        REMOTING: "it does not tell the type NORMAL, the default (rules 3.9.3)",
        APACHE_4: "its topics have no types",
    },
    "turns row by row": {REMOTING: _BATCH_PER_QUEUE, APACHE: _BATCH_PER_QUEUE},
    "pending resets": {APACHE_4: "a reset sets the offsets, and the broker forgets it"},
    "refusal of pulls": {APACHE_4: "it has no property rejectPullConsumerEnable"},
    "gzip": {APACHE: "messages of its clients are not compressed with gzip"},
}
"""Why a kind cannot do it, by what a test needs."""


SMALL = (
    "test_rows.py::test_a_row_has_all_fields",
    "test_rows.py::test_the_example_of_the_readme",
    "test_same_rows.py::",
    "test_filters.py::test_only_matching_messages_are_read",
    "test_progress.py::",
    "test_positions.py::test_a_batch_reads_from_",
    "test_failures.py::test_a_topic_that_lost",
    "sink/test_writing.py::test_all_columns_are_read_back",
    "sink/test_writing.py::test_a_stream_is_written",
)
"""The beginnings of the tests that also run against Apache's servers in ``make test``: rows, options, filters, loss and
writing."""


LONG = (
    "test_starts_by_name.py::",
    "test_admission.py::",
    "test_allocation.py::test_the_strategy",
    "test_lag.py::",
    "test_topics.py::test_both_sides",
    "test_topics.py::test_a_union",
    "test_loss.py::test_a_query_that_has_lost",
)
"""The beginnings of tests that take long and plan the same over each protocol. They run against all kinds but
``remoting``."""


def make_params(kinds: Sequence[str]) -> list[Any]:
    """Returns kinds as the parameters of a fixture. Tests against Apache's servers get their marker."""
    return [pytest.param(kind, marks=getattr(pytest.mark, APACHE)) if kind == APACHE else kind for kind in kinds]


def needs(*abilities: str) -> pytest.MarkDecorator:
    """Marks tests that only run against kinds with these abilities."""
    assert set(abilities) <= LACKS.keys(), f"{abilities} are not in the table of abilities"
    return pytest.mark.needs(*abilities)


def leave_out(items: list[pytest.Item], version: str | None) -> Sequence[pytest.Item]:
    """Removes and returns tests whose kind lacks what they need. Marks those of the small set.

    Those of Apache's are skipped with the reason instead, so that it is told.
    """
    kept, left_out = [], []
    for item in items:
        if item.get_closest_marker(APACHE) and _is_among(item, SMALL):
            item.add_marker("apache_small")
        reason = _find_reason(item, version)
        if reason is None:
            kept.append(item)
        elif _kind_of(item) == APACHE:
            item.add_marker(pytest.mark.skip(reason=f"Apache's server cannot do this: {reason}"))
            kept.append(item)
        else:
            left_out.append(item)
    items[:] = kept
    return left_out


def _find_reason(item: pytest.Item, version: str | None) -> str | None:
    kind = _kind_of(item)
    if kind is None:
        return None
    if kind == REMOTING and _is_among(item, LONG):
        return "it takes long, and plans the same over each protocol"
    names = [kind, APACHE_4] if kind == APACHE and version == "4.9" else [kind]
    needed = [ability for mark in item.iter_markers("needs") for ability in mark.args]
    reasons = (LACKS[ability].get(name) for ability in needed for name in names)
    return next((reason for reason in reasons if reason is not None), None)


def _is_among(item: pytest.Item, beginnings: tuple[str, ...]) -> bool:
    return item.nodeid.removeprefix("tests/integration/").startswith(beginnings)


def _kind_of(item: pytest.Item) -> str | None:
    found = getattr(item, "callspec", None)
    return None if found is None else found.params.get("kind")
