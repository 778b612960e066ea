"""Where the time of a workload goes: medians of runs, and the table."""

from __future__ import annotations

import json

from bench.comparison import document
from bench.costs import Costs, cost_rows, costs_of

KINDS = ("broker", "client", "JVM")


def make_costs(*broker_s: float) -> Costs:
    costs = Costs("read", KINDS)
    for seconds in broker_s:
        costs.add("rmqpull", {"broker": 1.0}, {"broker": 1.0 + seconds, "client": 4.0, "other": 9.0}, rows=2_000_000)
    return costs


def test_a_cost_is_the_difference_for_a_million_rows_and_other_processes_do_not_count() -> None:
    assert make_costs(3.0).medians("rmqpull") == {"broker": 1.5, "client": 2.0, "JVM": 0.0}


def test_the_sum_of_each_run_has_all_kinds() -> None:
    assert make_costs(3.0, 5.0).sums("rmqpull") == [3.5, 4.5]


def test_the_first_run_only_warms_up() -> None:
    costs = make_costs(100.0, 2.0, 4.0, 8.0)
    costs.add("failed after its first run", {}, {}, rows=1)
    costs.drop_warm_ups()
    assert costs.runs.keys() == {"rmqpull"}
    assert costs.medians("rmqpull")["broker"] == 2.0


def test_a_workload_that_is_watched_returns_its_figure() -> None:
    costs = Costs("read", KINDS)
    times = iter([{"broker": 1.0}, {"broker": 3.0}])
    assert costs.watch("Java", 1_000_000, lambda: 42.0, lambda: next(times))() == 42.0
    assert costs.medians("Java")["broker"] == 2.0


def test_the_table_has_a_line_for_each_contender_and_leaves_nothings_out() -> None:
    kept = json.loads(json.dumps(document([], {}, {}, [make_costs(3.0)])))
    assert list(cost_rows(costs_of(kept))) == [
        ("seconds of a core per million rows", "", "broker", "client", "JVM", "sum"),
        ("read", "rmqpull", "1.50", "2.00", "", "3.50"),
    ]


def test_most_runs_have_no_costs() -> None:
    assert list(cost_rows(costs_of(document([], {}, {})))) == []
