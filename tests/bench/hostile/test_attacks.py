"""The table of attacks: there are enough, each says what it is, and each begins."""

from __future__ import annotations

import inspect

from bench.hostile.attack import Target
from bench.hostile.attacks import ATTACKS

LISTED_MIN = 30


def test_there_are_enough_attacks_and_none_twice() -> None:
    assert len(ATTACKS) >= LISTED_MIN
    runs = [attack.run for attack in ATTACKS.values()]
    assert len(set(runs)) == len(runs)


def test_each_attack_says_what_it_sends_and_what_bounds_it() -> None:
    texts = [(attack.sends, attack.bounded_by) for attack in ATTACKS.values()]
    assert all(sends and bounded_by for sends, bounded_by in texts)
    assert len({sends for sends, _ in texts}) == len(texts)
    assert all(inspect.getdoc(attack.run) for attack in ATTACKS.values())


def test_both_protocols_and_the_metrics_page_are_attacked() -> None:
    sources = [inspect.getsource(attack.run) for attack in ATTACKS.values()]
    for place in ("target.remoting", "target.grpc", "target.metrics"):
        assert any(place in source for source in sources), place


def test_a_target_reaches_the_process_of_an_attack() -> None:
    target = Target("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
    assert Target.from_text(target.to_text()) == target
