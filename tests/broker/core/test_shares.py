"""How a whole is shared: a lone holder may use it, and whoever comes later still finds something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.shares import ANYBODY, OF_ADDRESS, OF_CONNECTION, Holder, Shares, find_holder, find_most

WHOLE = 8_000


def fill(shares: Shares, *addresses: str) -> list[int]:
    """Lets connections take one after the other, in turn, until none may take more. Returns what each has then."""
    holders = [find_holder(address) for address in addresses]
    held = [0] * len(holders)
    while any(shares.allows(holder) for holder in holders):
        for index, holder in enumerate(holders):
            if shares.allows(holder):
                shares.take(holder)
                held[index] += 1
    return held


def test_a_lone_connection_may_use_the_whole() -> None:
    assert fill(Shares(WHOLE), "10.0.0.1:5") == [WHOLE]


def test_shares_that_are_used_at_the_same_time_are_equal_and_leave_little() -> None:
    held = fill(Shares(WHOLE), "10.0.0.1:5", "10.0.0.2:5", "10.0.0.3:5", "10.0.0.4:5")
    assert max(held) - min(held) <= 1
    assert sum(held) > WHOLE


@pytest.mark.parametrize("later", ["10.0.0.1:6", "10.0.0.2:5"])
def test_who_comes_later_finds_something_on_the_same_address_and_on_another(later: str) -> None:
    shares = Shares(WHOLE)
    fill(shares, "10.0.0.1:5")
    assert fill(shares, later)[0] > WHOLE / 10


def test_an_address_with_many_connections_leaves_something_for_others() -> None:
    shares = Shares(WHOLE)
    first = fill(shares, *(f"10.0.0.1:{port}" for port in range(50)))
    assert sum(first) > WHOLE
    assert fill(shares, "10.0.0.2:5")[0] > WHOLE / 100


def test_an_address_that_holds_too_much_waits_until_it_has_its_share() -> None:
    shares, first, later = Shares(WHOLE), find_holder("10.0.0.1:5"), find_holder("10.0.0.2:5")
    fill(shares, "10.0.0.1:5")
    fill(shares, "10.0.0.2:5")
    shares.give_back(first, 5)
    assert (shares.allows(first), shares.allows(later)) == (False, True)


@pytest.mark.parametrize(
    ("remote_address", "address"), [("10.0.0.1:5", "10.0.0.1"), ("[::1]:5", "[::1]"), ("", ""), ("unix", "")]
)
def test_the_address_of_a_connection_is_that_without_its_port(remote_address: str, address: str) -> None:
    assert find_holder(remote_address) == Holder(remote_address, address)


@pytest.mark.parametrize(("whole", "most"), [(1, 2), (8, 9), (9, 11), (100_000, 112_500)])
def test_an_eighth_comes_on_top_of_the_whole(whole: int, most: int) -> None:
    assert find_most(whole) == most


HOLDERS = [find_holder(f"10.0.0.{host}:{port}") for host in range(3) for port in range(2)]
STEPS = st.lists(st.tuples(st.sampled_from(HOLDERS), st.integers(-9, 9)), max_size=50)


@given(st.integers(1, 40), STEPS)
def test_shares_are_as_the_rule_says(whole: int, steps: list[tuple[Holder, int]]) -> None:
    shares, held = Shares(whole), dict.fromkeys(HOLDERS, 0)
    for holder, change in steps:
        if change < 0:
            returned = min(-change, held[holder])
            shares.give_back(holder, returned)
            held[holder] -= returned
            continue
        free = shares.most - sum(held.values()) - change
        of_address = sum(count for each, count in held.items() if each.address == holder.address)
        allowed = held[holder] + change <= OF_CONNECTION * free and of_address + change <= OF_ADDRESS * free
        assert shares.allows(holder, change) == allowed
        assert allowed or shares.is_half_used or change > 1
        if allowed:
            shares.take(holder, change)
            held[holder] += change
    assert shares.used == sum(held.values())


def test_half_is_used_as_soon_as_it_is() -> None:
    shares = Shares(16)
    half, rest = divmod(shares.most, 2)
    assert rest == 0, "an even number, so that it has a half"
    shares.take(ANYBODY, half - 1)
    assert not shares.is_half_used
    shares.take(ANYBODY)
    assert shares.is_half_used
