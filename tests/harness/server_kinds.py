"""The kinds of servers that the same tests run against, and what each of them cannot do.

A kind is ``apache``, ``proxy`` (the same servers, reached through the remoting port of Apache's proxy), ``remoting`` (a
broker of this project that is reached by the remoting protocol), or the extensions that a broker of this project
offers. A test that needs more than every server has says so: ``@needs("faults")``. It does not run against the kinds
that :data:`LACKS` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

APACHE = "apache"
APACHE_4 = "apache 4.9"
PROXY = "proxy"
OF_APACHE = (APACHE, PROXY)
"""The kinds whose servers are Apache's. What the servers lack, they also lack behind a proxy."""
STANDARD = "none"
COLUMNS = "columns"
COLUMNS_ADMIN = "columns,admin"
STAGES = "columns,admin,stages"
REMOTING = "remoting"
READING = (COLUMNS, STANDARD, REMOTING, APACHE, PROXY)
"""The kinds that Spark reads from: one of each transport, and of each way to a cluster."""
WRITING = (STAGES, COLUMNS_ADMIN, STANDARD, REMOTING, APACHE, PROXY)
"""The kinds that Spark writes to."""

_NO_EXTENSION = "it has no extensions"
_NOT_HERE = "it runs in another process, without a way to"
_LATE_SIZES = "it tells the size of a message only with the message"
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
    "faults": {APACHE: f"{_NOT_HERE} make it refuse, delay or hold chosen requests"},
    "TLS and keys": {REMOTING: "the proxy of these tests speaks gRPC, and the broker itself checks no keys"},
    "manual clock": {APACHE: f"{_NOT_HERE} change its time"},
    "counts of requests": {APACHE: f"{_NOT_HERE} see which requests it got"},
    "empty bodies": {
        REMOTING: "clients of the protocol are refused them (rules 3.10.1)",
        APACHE: "it refuses them (rules 3.10.1), and its files cannot be changed",
    },
    "endpoints": {REMOTING: _OVER_GRPC, APACHE: _OVER_GRPC},
    "message types": {
        REMOTING: "it does not tell the type NORMAL, the default (rules 3.9.3)",
        APACHE_4: "its topics have no types",
    },
    "message types in plans": {PROXY: "it tells the type of a topic only when it refuses a message"},
    "turns row by row": {REMOTING: _BATCH_PER_QUEUE, APACHE: _BATCH_PER_QUEUE},
    "pending resets": {APACHE_4: "a reset sets the offsets, and the broker forgets it"},
    "refusal of pulls": {APACHE_4: "it has no property rejectPullConsumerEnable"},
    "lists of topics": {PROXY: "it does not serve GET_ALL_TOPIC_LIST_FROM_NAMESERVER"},
    "delivery times in the past": {
        PROXY: "a message with such a time has no delay, and the proxy keeps it out of topics of type DELAY"
    },
    "members on brokers": {PROXY: "its members are known to the proxy alone"},
    "addresses of brokers": {PROXY: "it names itself as the address of each broker"},
    "gzip": {APACHE: "messages of its clients are not compressed with gzip"},
}
"""Why a kind cannot do it, by what a test needs."""
WITHOUT_PROXY = {"4.9": "4.x has no proxy", "5.1": "Maven has no proxy of 5.1.4"}
"""Why kind :data:`PROXY` does not run, by the release of Apache RocketMQ."""


REQUESTS: dict[str, dict[str, str]] = {
    "send": {
        STAGES: "StageColumns",
        COLUMNS_ADMIN: "PublishColumns",
        STANDARD: "SendMessage",
        REMOTING: "SEND_MESSAGE_V2",
    },
    "pull": {COLUMNS: "PullColumns", STANDARD: "PullMessage", REMOTING: "PULL_MESSAGE"},
    "set offsets": {COLUMNS: "CommitOffsets", STANDARD: "UpdateOffset", REMOTING: "UPDATE_CONSUMER_OFFSET"},
    "look for topics": {COLUMNS: "QueryBounds", STANDARD: "QueryRoute", REMOTING: "GET_ROUTEINFO_BY_TOPIC"},
}
"""The names of requests of the source and the sink by kind, for fault rules and counts."""


PLANNED_ALIKE = (
    "test_admission.py::",
    "test_allocation.py::",
    "test_async_progress.py::",
    "test_bad_input.py::",
    "test_checkpoints.py::",
    "test_from_kafka.py::",
    "test_lag.py::",
    "test_loss.py::test_a_query_that_has_lost",
    "test_progress.py::",
    "test_retention_meanwhile.py::",
    "test_starts_by_name.py::",
    "test_topics.py::",
    "sink/test_examples.py::",
    "sink/test_without_repeats.py::",
)
"""The beginnings of the ids of tests whose subject is planned in the same way over each protocol.

Before a merge they run against :data:`FIRST`, and each night against all kinds.
"""
SEEN_ON_APACHE = (
    "test_failures.py::",
    "test_group.py::test_a_batch_waits",
    "test_group.py::test_a_stream_waits",
    "test_group.py::test_assigned_queues",
    "test_group.py::test_once_leaves",
    "test_group.py::test_the_file_of_a_broadcasting",
    "test_loss.py::",
    "test_outages.py::",
    "test_positions.py::",
    "sink/test_refusals.py::",
)
"""The same for tests that run against Apache's servers before a merge, too."""
FIRST_OF_PROXY = (
    "test_group.py::test_a_failed_batch_sets_no",
    "test_group.py::test_a_reset_does_not_move_an_idle",
    "test_rows.py::test_a_row_has_all_fields",
    "test_secured.py::test_a_stream_and_a_batch",
    "sink/test_writing.py::test_each_row_goes",
    "sink/test_writing.py::test_all_columns_are_read_back",
)
"""The beginnings of the ids of the tests of kind :data:`PROXY` that run before a merge.

The others run each night: the servers are those of kind :data:`APACHE`, and only the path to them differs.
"""
FIRST = (COLUMNS, STAGES)
"""The kinds that all tests run against before a merge."""


def make_params(kinds: Sequence[str]) -> list[Any]:
    """Returns kinds as the parameters of a fixture. Tests against Apache's servers get their markers."""
    marks = {APACHE: [pytest.mark.apache], PROXY: [pytest.mark.apache, pytest.mark.proxy]}
    return [pytest.param(kind, marks=marks[kind]) if kind in marks else kind for kind in kinds]


def needs(*abilities: str) -> pytest.MarkDecorator:
    """Marks tests that only run against kinds with these abilities."""
    assert set(abilities) <= LACKS.keys(), f"{abilities} are not in the table of abilities"
    return pytest.mark.needs(*abilities)


def leave_to_the_night(items: Sequence[pytest.Item]) -> None:
    """Marks tests of kinds that are not tried before each merge."""
    for item in items:
        kind = _kind_of(item)
        if kind is None or kind in FIRST:
            continue
        if kind == PROXY:
            is_late = not _is_among(item, FIRST_OF_PROXY)
        else:
            is_late = _is_among(item, PLANNED_ALIKE) or (kind != APACHE and _is_among(item, SEEN_ON_APACHE))
        if is_late:
            item.add_marker(pytest.mark.nightly)


def leave_out(items: Sequence[pytest.Item], version: str | None) -> None:
    """Skips tests whose kind lacks what they need, so that the end of a run tells why."""
    for item in items:
        reason = _find_reason(item, version)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"not against kind {_kind_of(item)!r}: {reason}"))


def _find_reason(item: pytest.Item, version: str | None) -> str | None:
    kind = _kind_of(item)
    if kind is None:
        return None
    if kind == PROXY and version in WITHOUT_PROXY:
        return WITHOUT_PROXY[version]
    names = {PROXY: [PROXY, APACHE], APACHE: [APACHE, APACHE_4] if version == "4.9" else [APACHE]}.get(kind, [kind])
    needed = [ability for mark in item.iter_markers("needs") for ability in mark.args]
    reasons = (LACKS[ability].get(name) for ability in needed for name in names)
    return next((reason for reason in reasons if reason is not None), None)


def _is_among(item: pytest.Item, beginnings: tuple[str, ...]) -> bool:
    return item.nodeid.removeprefix("tests/integration/").startswith(beginnings)


def _kind_of(item: pytest.Item) -> str | None:
    found = getattr(item, "callspec", None)
    return None if found is None else found.params.get("kind")
