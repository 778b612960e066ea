"""Random requests get the same answers from the emulator and from a real Apache RocketMQ.

The test names its seeds, so a failure repeats. More seeds: ``python -m tests.differential``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from processes.apache.cluster import ApacheCluster
from processes.apache.releases import RELEASE_5, Release
from rmqpull_broker.testing import running_broker
from tests.differential.comparison import Difference
from tests.differential.generator import make_steps
from tests.differential.runner import LIKE_APACHE, Address
from tests.differential.shrinking import Finding, play, shrink
from tests.differential.steps import Step

SUBJECTS = ("pulls", "pops", "members", "sends", "topics")
SEEDS = range(1, 61)
DIFFERENT = Difference("code", 0, 1)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Address]:
    with running_broker(remoting=True, properties=LIKE_APACHE) as broker:
        (address,) = broker.remoting_addresses
        yield Address(address, address)


@pytest.fixture(scope="module")
def real(apache: ApacheCluster, apache_release: Release) -> Address:
    if apache_release is not RELEASE_5:
        pytest.skip("the emulator answers as a broker of 5.5")
    return Address(apache.addresses, apache.brokers[0].address, is_late=True)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_both_servers_answer_alike(emulator: Address, real: Address, subject: str) -> None:
    for seed in SEEDS:
        finding = play(make_steps(seed, subject), emulator, real)
        if finding is not None:
            shortest = shrink(finding, lambda steps: play(steps, emulator, real))
            pytest.fail(f"seed {seed}:\n{shortest.format()}", pytrace=False)


def test_a_sequence_depends_on_its_seed_alone() -> None:
    assert make_steps(1) == make_steps(1) != make_steps(2)


def test_a_sequence_with_a_difference_is_shortened_to_what_it_needs() -> None:
    steps = make_steps(3)[:41]
    needed = [steps[5], steps[19], steps[40]]

    def replay(candidate: Sequence[Step]) -> Finding | None:
        return Finding(candidate, [DIFFERENT]) if all(step in candidate for step in needed) else None

    shortest = shrink(Finding(steps, [DIFFERENT]), replay)
    assert shortest.steps == needed
    assert "| code | 0 | 1 |" in shortest.format()
