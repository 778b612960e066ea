"""Figures of several contenders: medians, ratios, aims, and the JSON for the docs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bench.comparison import (
    CEILING,
    KAFKA,
    OURS,
    REASON_LENGTH_MAX,
    Comparison,
    comparisons_of,
    document,
    measure,
    reason_of,
)
from bench.results import Aim


def compared(**figures: list[float]) -> Comparison:
    names = {"ours": OURS, "kafka": KAFKA, "ceiling": CEILING}
    aims = {KAFKA: Aim(at_least=2.5), CEILING: Aim(at_least=0.7)}
    return Comparison("read", "a read", "rows/s", aims, figures={names[name]: them for name, them in figures.items()})


def test_a_ratio_is_of_medians_and_not_of_means() -> None:
    comparison = compared(ours=[300, 1, 1000], kafka=[100, 90, 110])
    assert comparison.ratio(KAFKA) == 3
    assert comparison.verdict(KAFKA) is True


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [([69.0], False), ([70.0], True), ([100.0], True)],
)
def test_an_aim_limits_the_ratio_and_includes_the_limit(ours: list[float], verdict: bool) -> None:
    assert compared(ours=ours, ceiling=[100]).verdict(CEILING) is verdict


def test_an_aim_for_rmqpull_limits_the_figure_itself() -> None:
    comparison = Comparison("m", "memory", "MB", {OURS: Aim(at_most=400)}, figures={OURS: [401, 399, 380]})
    assert comparison.verdict(OURS) is True
    assert comparison.ratio(OURS) is None


def test_without_a_figure_there_is_neither_ratio_nor_verdict() -> None:
    comparison = compared(ours=[1])
    assert (comparison.ratio(KAFKA), comparison.verdict(KAFKA)) == (None, None)
    kept = comparison.as_json()["contenders"][KAFKA]
    assert (kept["figures"], kept["median"], kept["is_met"]) == ([], None, None)


def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    done: list[str] = []

    def workload(name: str) -> Callable[[], float]:
        def measured() -> float:
            done.append(name)
            return len(done)

        return measured

    comparison = measure(Comparison("x", "x", "s"), {OURS: workload("o"), KAFKA: workload("k")}, runs=2)
    assert "".join(done) == "okokok"
    assert comparison.figures == {OURS: [3, 5], KAFKA: [4, 6]}


def test_a_contender_that_fails_gets_a_failed_line_and_the_others_continue() -> None:
    ours = iter([1.0, 2.0, 3.0])
    kafka = iter([9.0, 8.0])  # its third run fails

    def expire() -> float:
        try:
            return next(kafka)
        except StopIteration:
            raise TimeoutError("Expiring 10 record(s).\nand a stack trace") from None

    comparison = measure(compared(), {OURS: lambda: next(ours), KAFKA: expire}, runs=2)
    assert comparison.figures == {OURS: [2.0, 3.0]}
    assert comparison.failed == {KAFKA: "TimeoutError: Expiring 10 record(s)"}
    assert (comparison.ratio(KAFKA), comparison.verdict(KAFKA)) == (None, None)


def test_a_contender_that_failed_before_is_not_measured() -> None:
    comparison = Comparison("x", "x", "s", failed={KAFKA: "its topic could not be filled"})
    assert measure(comparison, {OURS: lambda: 1.0, KAFKA: lambda: 2.0}, runs=1).figures == {OURS: [1.0]}


def test_a_failure_tells_its_kind_and_its_first_line_in_bounded_length() -> None:
    assert reason_of(KeyError()) == "KeyError: "
    assert len(reason_of(ValueError("x" * 10_000))) == REASON_LENGTH_MAX


def test_a_run_comes_back_from_its_json_as_it_was() -> None:
    comparison = compared(ours=[250.0, 260.0])
    comparison.not_run[KAFKA] = "Maven is not installed"
    comparison.fail(CEILING, "it stopped")
    kept = json.loads(json.dumps(document([comparison], {"cores": "2"}, {"runs": 2})))
    (again,) = comparisons_of(kept)
    assert again == comparison
    assert kept["machine"] == {"cores": "2"}
    assert kept["comparisons"][0]["contenders"][KAFKA]["not_run"] == "Maven is not installed"


@pytest.mark.parametrize(
    "kept", [{}, {"format": 2, "comparisons": []}, {"format": 1}, {"format": 1, "comparisons": [{}]}]
)
def test_json_that_is_no_run_is_refused_with_advice(kept: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="make bench"):
        comparisons_of(kept)
