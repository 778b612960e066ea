"""Short soaks: of two kills, and, for the nightly parts, with kills of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.plan import CLUSTER_DECK, DECK, Kind
from soak.runs import DOCS, JSON_FILES, page, read_runs
from tests.harness.soak_run import TIMEOUT_S, run_soak

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


@pytest.mark.nightly
@pytest.mark.processes
def test_two_kills_of_the_broker_lose_and_repeat_nothing(tmp_path: Path) -> None:
    result = run_soak(tmp_path, "--seed", "20", "--kills", "2")
    assert (result["rounds"], result["rounds_on_cluster"]) == (1, 0)
    assert result["kills"] == {Kind.KILL_BROKER.value: 2}


@pytest.mark.nightly
@pytest.mark.processes
def test_every_acknowledged_message_is_in_the_output_exactly_once(tmp_path: Path) -> None:
    """Also acceptance case 39: topics and queues are added while messages are sent, and the query stops and starts."""
    kills = ("--kills", str(2 * len(CLUSTER_DECK)), "--kills-per-round", str(len(CLUSTER_DECK)))
    result = run_soak(tmp_path, "--seed", "20", *kills)
    assert (result["rounds"], result["rounds_on_cluster"]) == (2, 1)
    assert result["kills"].keys() == {kind.value for kind in CLUSTER_DECK}


@pytest.mark.nightly
@pytest.mark.processes
def test_the_sink_keeps_the_promise_of_its_delivery(tmp_path: Path) -> None:
    """Exactly once. `make soak` covers the other deliveries, test_query_job_sink_kill.py their kills."""
    kills = ("--kills", str(len(DECK)), "--kills-per-round", str(len(DECK)))
    result = run_soak(tmp_path, "--what", "sink", "--seed", "20", *kills)
    assert (result["rounds"], result["rounds_on_cluster"]) == (1, 0)
    assert result["kills"].keys() == {kind.value for kind in DECK}


def test_the_page_in_the_docs_shows_the_results_in_the_docs() -> None:
    assert (DOCS / "soak.md").read_text(encoding="utf-8") == page({name: read_runs(name) for name in JSON_FILES})
