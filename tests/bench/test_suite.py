"""The suite: its options, what its parts compute, and a tiny run in a real Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from rich.console import Console

from bench.comparison import CEILING, KAFKA, OURS, Comparison, comparisons_of
from bench.latency import percentile
from bench.machine_load import BUSY_CORES_MAX, refuse_a_busy_machine, tree_cpu_s
from bench.ready_batches import published, row_batch, rows_of_a_batch
from bench.session import KafkaSource
from bench.sizes import QUICK, Numbers, chosen
from bench.suite import measured
from bench.topics import BenchContext, evenly, newest
from bench.writing import AT_LEAST_ONCE, UNSYNCED, writes
from processes.maven import Artifact
from pyspark_rmqpull.schema import ROW_SCHEMA

ROOT = Path(__file__).parents[2]


def test_a_size_that_is_asked_for_replaces_that_of_the_preset() -> None:
    sizes = chosen(QUICK, {"rows": 80, "runs": None})
    assert (sizes.rows, sizes.runs, sizes.messages) == (80, QUICK.runs, QUICK.messages)


def test_numbers_are_sorted_and_each_is_there_once() -> None:
    assert Numbers().convert("64,1,64", None, None) == (1, 64)


@pytest.mark.parametrize("value", ["", "ten", "0,1", "1;2"])
def test_a_text_that_is_no_list_of_numbers_is_refused(value: str) -> None:
    with pytest.raises(click.BadParameter):
        Numbers().convert(value, None, None)


@pytest.mark.parametrize(
    ("percent", "values", "wanted"),
    [
        (50, [3.0, 1.0, 2.0], 2.0),
        (50, [1.0, 2.0], 1.0),
        (99, [float(number) for number in range(1, 101)], 99.0),
        (99, [1.0, 5.0], 5.0),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(percent: int, values: list[float], wanted: float) -> None:
    assert percentile(values, percent) == wanted


@pytest.mark.parametrize(("rows", "queues", "wanted"), [(8, 8, 8), (9, 8, 16), (100, 64, 128)])
def test_every_queue_gets_as_many_rows(rows: int, queues: int, wanted: int) -> None:
    assert evenly(rows, queues) == wanted


def test_the_newest_rows_begin_at_the_same_offset_of_every_queue() -> None:
    assert json.loads(newest("rows", 1_000, 2, 100, "broker-a")) == {"rows": {"broker-a": {"0": 450, "1": 450}}}
    assert json.loads(newest("rows", 1_000, 2, 100)) == {"rows": {"0": 450, "1": 450}}


@pytest.mark.parametrize(("body_bytes", "rows"), [(100, 10_000), (4_096, 1_024), (262_144, 16), (8 << 20, 1)])
def test_batches_have_as_many_rows_as_those_of_the_source(body_bytes: int, rows: int) -> None:
    assert rows_of_a_batch(body_bytes) == rows


def test_ready_rows_have_all_columns_and_the_bodies_that_are_published() -> None:
    batch = row_batch(tuple(ROW_SCHEMA.fieldNames()), 3, 100)
    sent = published(3, 100)
    assert batch.schema.names == ROW_SCHEMA.fieldNames()
    assert batch.column("body").equals(sent.column("body"))
    assert batch.column("properties").equals(sent.column("properties"))
    assert set(map(len, batch.column("body").to_pylist())) == {100}


def test_every_hundredth_message_has_the_rare_tag() -> None:
    tags = published(1_000, 10, rare=100).column("tags").to_pylist()
    assert (tags.count("rare"), tags.count("often")) == (10, 990)


@pytest.mark.parametrize("surplus", [-1, 1])
def test_writes_with_a_wrong_number_of_rows_have_no_figure(surplus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = QUICK.written_rows * (QUICK.runs + 1)
    counts = {"once": wanted + surplus, "repeatedly": wanted, "unsynced": wanted}
    monkeypatch.setattr("bench.writing.broker", lambda *_: nullcontext(SimpleNamespace(endpoints="")))
    monkeypatch.setattr("bench.writing.make_rows", lambda *_: None)
    for writing in ("write_rows", "drop_rows"):
        monkeypatch.setattr(f"bench.writing.{writing}", lambda *_: 1.0)
    monkeypatch.setattr("bench.writing.ours", lambda *_, topic: SimpleNamespace(count=lambda: counts[topic]))
    spark: Any = SimpleNamespace(read=None)
    (comparison,) = writes(BenchContext(spark, QUICK))
    assert comparison.figures.keys() == {CEILING, AT_LEAST_ONCE, UNSYNCED}
    assert f"its topic has {wanted + surplus} rows after all runs instead of {wanted}" in comparison.failed[OURS]


def failing_kafka() -> Any:
    def fill(*_: object) -> None:
        raise TimeoutError("Expiring 10 record(s)")

    return SimpleNamespace(create=lambda *_: None, delete=lambda *_: None, fill=fill)


def test_a_topic_that_kafka_cannot_fill_can_still_be_read_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.topics.broker", lambda *_: nullcontext(SimpleNamespace(endpoints="127.0.0.1:1")))
    monkeypatch.setattr("bench.topics.fill", lambda *_: None)
    spark: Any = None
    with BenchContext(spark, QUICK, kafka=failing_kafka()).topic(8, 8, 100) as topic:
        assert topic.contenders(is_stream=True).keys() == {OURS, CEILING}
        assert topic.failed == {KAFKA: "its topic could not be filled: TimeoutError: Expiring 10 record(s)"}


def test_a_workload_that_fails_gets_a_line_and_the_next_one_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: BenchContext) -> Iterator[Comparison]:
        yield Comparison("first", "first", "s", figures={OURS: [1.0]})
        raise OSError("no room")

    def go_on(_: BenchContext) -> Iterator[Comparison]:
        yield Comparison("second", "second", "s", figures={OURS: [2.0]})

    monkeypatch.setattr("bench.suite.WORKLOADS", {"reads": fail, "latency": go_on})
    opened = SimpleNamespace(spark=None, kafka_source=KafkaSource(missing="it was left out"))
    monkeypatch.setattr("bench.suite.session", lambda **_: nullcontext(opened))
    console = Console(file=StringIO())
    *_, found = measured(QUICK, ("reads", "latency"), False, console)
    assert [(one.title, one.failed) for one in found.comparisons] == [
        ("first", {}),
        ("reads, the whole workload", {OURS: "OSError: no room"}),
        ("second", {}),
    ]
    assert found.workloads == ["reads", "latency"]


@pytest.mark.processes
def test_the_processor_time_of_a_run_contains_that_of_ended_children() -> None:
    before_s = tree_cpu_s(os.getpid())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True, timeout=60)
    assert tree_cpu_s(os.getpid()) - before_s >= 0.2  # the system counts in ticks of 0.01 s


@pytest.mark.parametrize(
    ("busy_cores", "is_kept", "status", "said"),
    [
        (BUSY_CORES_MAX, True, None, ""),
        (BUSY_CORES_MAX + 0.1, True, 2, "End them and try again"),
        (BUSY_CORES_MAX + 0.1, False, None, "measured anyway"),
    ],
)
def test_a_run_that_is_kept_is_refused_on_a_busy_machine(
    busy_cores: float, is_kept: bool, status: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.machine_load.look_around", lambda: busy_cores)
    output = StringIO()
    console = Console(file=output, width=200)
    with pytest.raises(SystemExit) if status else nullcontext() as exit_info:
        refuse_a_busy_machine(is_kept, console)
    assert (exit_info.value.code if exit_info else None) == status
    assert said in output.getvalue()


def test_an_artifact_excludes_dependencies_that_spark_has_already() -> None:
    assert "<exclusion>" in Artifact("g", "n", "1").as_dependency()
    assert "<exclusion>" not in Artifact("g", "n", "1", is_alone=False).as_dependency()


@pytest.mark.nightly
@pytest.mark.processes
def test_a_tiny_run_measures_what_it_says_and_names_who_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [
        sys.executable,
        "-m",
        "bench.suite",
        "--quick",
        "--without-kafka",
        "--workloads",
        "reads,filter,write",
    ]
    done = subprocess.run(
        [*command, "--rows", "1600", "--written-rows", "1600", "--runs", "1", "--json", str(file)],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # the lock of benchmarks is a file there
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0
    kept = json.loads(file.read_text(encoding="utf-8"))
    comparisons = {comparison.name: comparison for comparison in comparisons_of(kept)}
    assert comparisons.keys() == {
        "stream-default-row",
        "stream-body",
        "batch-default-row",
        "filter-1-percent",
        "batch-write",
    }
    assert all(min(figures) > 0 for one in comparisons.values() for figures in one.figures.values())
    read = comparisons["stream-default-row"]
    assert read.figures.keys() == {OURS, CEILING}
    assert read.not_run == {KAFKA: "it was left out"}
    assert "Kafka was not run: it was left out." in done.stdout
