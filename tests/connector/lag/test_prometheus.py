"""Prometheus scrapes the lags of running queries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from pyspark_rmqpull.lag import RmqpullLagListener
from pyspark_rmqpull.lag.prometheus import LagCollector


def finished(query_id: str, name: str | None, *sources: Any, timestamp: str = "2026-03-01T12:00:00.000Z") -> Any:
    return SimpleNamespace(
        progress={"id": query_id, "name": name, "batchId": 3, "timestamp": timestamp, "sources": sources}
    )


def source(ends: dict[str, int], latest: dict[str, int], lost: dict[str, int] | None = None) -> Any:
    """A source of the topic "orders", by queue id."""

    def form(queues: dict[str, int]) -> Any:
        return {"orders": {"broker-a": queues}}

    newest = {"version": 1, "offsets": form(latest), **({"rowsLost": form(lost)} if lost else {})}
    return {"endOffset": {"version": 1, "offsets": form(ends)}, "latestOffset": newest}


def scrape(listener: RmqpullLagListener, **limits: int) -> list[str]:
    """The samples of one scrape."""
    registry = CollectorRegistry()
    registry.register(LagCollector(listener, **limits))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


OF_QUEUE = 'broker="broker-a",query="{}",query_id="{}",queue="{}",source="{}",topic="orders"'


def test_each_queue_of_each_source_of_each_query_has_its_series() -> None:
    listener = RmqpullLagListener()
    first, second = source({"0": 1, "1": 6}, {"0": 3, "1": 6}, {"1": 5}), source({"0": 1}, {"0": 9})
    listener.onQueryProgress(finished("51f0", "billing", first, {"endOffset": "5", "latestOffset": "7"}, second))
    listener.onQueryProgress(finished("62a1", None, source({"0": 0}, {"0": 1}), timestamp="some day"))
    billing = [OF_QUEUE.format("billing", "51f0", queue, index) for queue, index in ((0, 2), (0, 0), (1, 0))]
    unnamed = OF_QUEUE.format("62a1", "62a1", 0, 0)
    assert sorted(scrape(listener)) == sorted(
        [
            f"rmqpull_offsets_behind_latest{{{billing[0]}}} 8.0",
            f"rmqpull_offsets_behind_latest{{{billing[1]}}} 2.0",
            f"rmqpull_offsets_behind_latest{{{unnamed}}} 1.0",
            f"rmqpull_offsets_behind_latest{{{billing[2]}}} 0.0",
            f"rmqpull_rows_lost_total{{{billing[0]}}} 0.0",
            f"rmqpull_rows_lost_total{{{billing[1]}}} 0.0",
            f"rmqpull_rows_lost_total{{{unnamed}}} 0.0",
            f"rmqpull_rows_lost_total{{{billing[2]}}} 5.0",
            'rmqpull_batch_planned_timestamp_seconds{query="billing",query_id="51f0"} 1.7723664e+09',
            "rmqpull_queues_left_out 0.0",
        ]
    )


def test_rows_that_nobody_counts_have_no_series() -> None:
    listener = RmqpullLagListener()
    uncounted = source({"0": 1}, {"0": 3})
    uncounted["latestOffset"]["rowsLost"] = None
    listener.onQueryProgress(finished("51f0", None, uncounted))
    assert [line.split("{")[0] for line in scrape(listener) if "topic=" in line] == ["rmqpull_offsets_behind_latest"]


def test_a_query_that_has_ended_leaves_no_series() -> None:
    listener = RmqpullLagListener()
    listener.onQueryProgress(finished("51f0", "billing", source({"0": 1}, {"0": 3})))
    assert len(scrape(listener)) == 4
    listener.onQueryTerminated(SimpleNamespace(id="51f0"))  # type: ignore[arg-type]  # all that the listener reads
    assert scrape(listener) == ["rmqpull_queues_left_out 0.0"]


def test_of_too_many_queues_those_with_the_largest_lag_have_series() -> None:
    listener = RmqpullLagListener()
    ends, latest = dict.fromkeys(map(str, range(9)), 0), {str(number): number for number in range(9)}
    listener.onQueryProgress(finished("51f0", None, source(ends, latest)))
    samples = scrape(listener, queues_max=2)
    behind = [line.split()[-1] for line in samples if line.startswith("rmqpull_offsets_behind_latest")]
    assert behind == ["8.0", "7.0"]
    assert samples[-1] == "rmqpull_queues_left_out 7.0"
