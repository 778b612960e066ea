"""The workload that writes to a real Apache RocketMQ: rmqpull beside Apache's Java producer and Spark's Kafka sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

from bench.apache import COLUMNS, SEND_BATCH_SIZE, Apache, run_apache, spent_by_column
from bench.comparison import KAFKA, OURS, Comparison, Contender, Mismeasured, contain_failure, measure_all
from bench.costs import Costs
from bench.results import Aim
from bench.topics import BenchContext, of_kafka
from bench.writing import KAFKA_TOPICS, make_rows, rate, run_kafka_sinks, write_rows

JAVA = f"Java's DefaultMQProducer, batches of {SEND_BATCH_SIZE}"
TOPICS = {OURS: "of-spark", JAVA: "of-java"}


def apache_writes(context: BenchContext) -> Iterator[Comparison]:
    """Measures writes of rows with a body and a property, at least once. All rows are counted at the end."""
    sizes = context.sizes
    asked = {"rows": sizes.written_rows, "queues": sizes.queues, "body bytes": sizes.body_bytes}
    title, aims = "batch write, at least once", {JAVA: Aim(at_least=0.65), KAFKA: Aim(at_least=0.9)}
    comparison = Comparison("apache-write", title, "rows/s", aims, asked, not_run=dict(context.not_run))
    with ExitStack() as kept, run_apache(context, [comparison], JAVA) as running:
        if running is None:
            yield comparison
            return
        for topic in TOPICS.values():
            running.create(topic, sizes.queues)
        rows = make_rows(context.spark, sizes.written_rows, sizes.body_bytes)
        to_apache = {"nameServers": running.name_servers, "topic": TOPICS[OURS], "delivery": "at-least-once"}
        workloads: dict[str, Callable[[], float]] = {
            OURS: partial(write_rows, rows, to_apache),
            JAVA: partial(running.write, TOPICS[JAVA], sizes.written_rows, sizes.body_bytes),
        }
        workloads |= kept.enter_context(run_kafka_sinks(context, rows, comparison, [KAFKA]))
        costs, spent = Costs("batch write", COLUMNS), partial(spent_by_column, context, running)
        watched = {name: costs.watch(name, sizes.written_rows, seconds, spent) for name, seconds in workloads.items()}
        rates = {name: partial(rate, sizes.written_rows, seconds) for name, seconds in watched.items()}
        measure_all([Contender(name, workload, [comparison]) for name, workload in rates.items()], sizes.runs)
        costs.drop_warm_ups()
        context.costs.append(costs)
        _check(comparison, context, running)
    yield comparison
    yield _compare_costs(comparison, costs)


def _compare_costs(rates: Comparison, costs: Costs) -> Comparison:
    """Returns what all processes together needed, of the contenders that have a rate."""
    figures = {name: costs.sums(name) for name in rates.figures}
    title, aims = "batch write, all processes per million rows", {JAVA: Aim(at_most=1.5)}
    reasons = {"not_run": rates.not_run, "failed": rates.failed}
    return Comparison("apache-write-cost", title, "s", aims, rates.sizes, figures, **reasons)


def _check(comparison: Comparison, context: BenchContext, running: Apache) -> None:
    """Marks contenders as failed whose topic does not have the rows of all runs exactly once."""
    wanted = context.sizes.written_rows * (context.sizes.runs + 1)
    counts: dict[str, Callable[[], int]] = {
        name: partial(running.count, topic, context.sizes.queues, wanted) for name, topic in TOPICS.items()
    }
    if context.kafka is not None:
        counts[KAFKA] = of_kafka(context.spark.read, context.kafka.endpoints, KAFKA_TOPICS[KAFKA]).count
    for name, count in counts.items():
        if name not in comparison.failed:
            with contain_failure(name, comparison):
                if (found := count()) != wanted:
                    raise Mismeasured(f"its topic has {found} rows after all runs instead of {wanted}")
