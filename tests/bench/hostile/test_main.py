"""The command line of the attacks."""

from __future__ import annotations

import click
import pytest

from bench.hostile.__main__ import choose
from bench.hostile.attacks import ATTACKS


def test_some_attacks_can_be_chosen() -> None:
    assert [attack.name for attack in choose("churn,pulls")] == ["churn", "pulls"]
    assert choose("") == [*ATTACKS.values()]


def test_an_unknown_attack_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(click.BadParameter, match=r"none; there are .*churn"):
        choose("churn,none")
