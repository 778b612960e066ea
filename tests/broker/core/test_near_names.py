"""The known name that somebody probably meant by an unknown one."""

from __future__ import annotations

from rmqpull_broker.core.near_names import find_nearest, suggest

KNOWN = ["listen", "topic"]


def test_the_nearest_name_is_found_in_any_case() -> None:
    assert find_nearest("LISTN", KNOWN) == "listen"
    assert find_nearest("colour", KNOWN) is None


def test_an_error_ends_with_a_name_that_is_near() -> None:
    assert suggest("LISTN", KNOWN) == ". Did you mean 'listen'?"
    assert suggest("colour", KNOWN) == ""
