"""The listener remembers the newest lag of each query, and never raises."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_rmqpull.lag import QueryLag, RmqpullLagListener
from pyspark_rmqpull.lag.listener import QUERIES_MAX

FORM = {"version": 1, "offsets": {"orders": {"a": {"0": 4}}}}
END = {"version": 1, "offsets": {"orders": {"a": {"0": 1}}}}


def finished(query_id: str = "51f0", batch_id: int = 0, **other: Any) -> Any:
    sources = [{"endOffset": END, "latestOffset": FORM}]
    return SimpleNamespace(progress={"id": query_id, "batchId": batch_id, "sources": sources, **other})


def ended(query_id: str = "51f0") -> Any:
    return SimpleNamespace(id=query_id)


def test_each_lag_is_passed_on_and_the_newest_is_kept() -> None:
    lags: list[QueryLag] = []
    listener = RmqpullLagListener(lags.append)
    assert (listener.last, listener.running) == (None, {})
    listener.onQueryProgress(finished(batch_id=0))
    listener.onQueryProgress(finished("62a1", batch_id=5))
    listener.onQueryProgress(finished(batch_id=1))
    assert [(found.query_id, found.batch_id, found.offsets_behind_latest) for found in lags] == [
        ("51f0", 0, 3),
        ("62a1", 5, 3),
        ("51f0", 1, 3),
    ]
    assert listener.last == lags[-1]
    assert listener.running == {"62a1": lags[1], "51f0": lags[2]}


def test_a_query_that_has_ended_is_not_running_but_may_be_the_last() -> None:
    listener = RmqpullLagListener(lambda _: None)
    listener.onQueryProgress(finished())
    listener.onQueryTerminated(ended("62a1"))
    assert list(listener.running) == ["51f0"]
    listener.onQueryTerminated(ended())
    assert listener.running == {}
    assert listener.last is not None
    assert listener.last.query_id == "51f0"


def test_queries_of_other_sources_are_ignored() -> None:
    lags: list[QueryLag] = []
    listener = RmqpullLagListener(lags.append)
    listener.onQueryProgress(finished(sources=[{"endOffset": "17", "latestOffset": "20"}]))
    assert (lags, listener.last, listener.running) == ([], None, {})


@pytest.mark.parametrize("event", [finished(sources=5), SimpleNamespace(), None])
def test_an_event_that_cannot_be_read_is_only_logged(event: Any, caplog: pytest.LogCaptureFixture) -> None:
    RmqpullLagListener().onQueryProgress(event)
    assert "Cannot report the lag of a query" in caplog.text


def test_a_callback_that_fails_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[QueryLag] = []

    def fail(found: QueryLag) -> None:
        calls.append(found)
        raise RuntimeError("the pager is off")

    listener = RmqpullLagListener(fail)
    listener.onQueryProgress(finished(batch_id=0))
    listener.onQueryProgress(finished(batch_id=1))
    assert caplog.text.count("RuntimeError: the pager is off") == 2
    assert listener.running == {"51f0": calls[1]}


def test_without_a_callback_each_lag_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    RmqpullLagListener().onQueryProgress(finished(name="billing"))
    assert caplog.messages == ["query billing, batch 0: queues 1, behind latest 3 (min 3, max 3, avg 3.0), rows lost 0"]


def test_queries_whose_end_is_never_reported_do_not_fill_the_memory() -> None:
    listener = RmqpullLagListener(lambda _: None)
    for number in range(QUERIES_MAX + 5):
        listener.onQueryProgress(finished(str(number)))
        listener.onQueryProgress(finished("busy"))
    assert len(listener.running) == QUERIES_MAX
    assert {"busy", str(QUERIES_MAX + 4)} <= listener.running.keys()
