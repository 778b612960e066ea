"""Short soaks on a real Apache RocketMQ: a SYNC_MASTER and its slave, masters and the sink, masters behind proxies."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes.apache.releases import RELEASE_4, Release
from soak.plan import APACHE, APACHE_4, APACHE_DECK, PROXY, PROXY_DECK, REPLICATED_DECK, SINK, SOURCE
from soak.rounds import SERVED_BY_SLAVE
from tests.harness.soak_run import TIMEOUT_S, run_soak

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2 * TIMEOUT_S)]


@pytest.fixture
def server(apache_release: Release) -> str:
    return APACHE_4 if apache_release is RELEASE_4 else APACHE


def test_every_acknowledged_message_is_in_the_output_exactly_once(tmp_path: Path, server: str) -> None:
    """Master, slave, name servers and Spark's processes are killed. Acknowledged is what master and slave have."""
    kills = ("--first-round", "1", "--kills", str(len(REPLICATED_DECK)), "--kills-per-round", str(len(REPLICATED_DECK)))
    result = run_soak(tmp_path, "--server", server, "--seed", "20", *kills)
    assert result["kills"].keys() == {kind.value for kind in REPLICATED_DECK}
    assert server == APACHE_4 or SERVED_BY_SLAVE in result["other_steps"]


def test_the_sink_writes_every_acknowledged_message_at_least_once(tmp_path: Path, server: str) -> None:
    """Messages with the same ids are repeats; without them it is exactly once."""
    kills = ("--kills", str(len(APACHE_DECK)), "--kills-per-round", str(len(APACHE_DECK)))
    result = run_soak(tmp_path, "--server", server, "--what", "sink", "--seed", "20", *kills)
    assert result["kills"].keys() == {kind.value for kind in APACHE_DECK}


@pytest.mark.parametrize("what", [SOURCE, SINK])
def test_kills_of_proxies_lose_nothing_while_another_one_serves(tmp_path: Path, server: str, what: str) -> None:
    if server == APACHE_4:
        pytest.skip("4.x has no proxy")
    kills = ("--kills", str(len(PROXY_DECK)), "--kills-per-round", str(len(PROXY_DECK)))
    result = run_soak(tmp_path, "--server", PROXY, "--what", what, "--seed", "20", *kills)
    assert result["kills"].keys() == {kind.value for kind in PROXY_DECK}
