"""Names within a namespace, as RocketMQ's NamespaceUtil wraps and unwraps them."""

from __future__ import annotations

import pytest

from rmqpull_client.connection import unwrap_name, wrap_name

WRAPPED = [
    ("shop", "orders", "shop%orders"),
    ("shop", "%RETRY%billing", "%RETRY%shop%billing"),
    ("shop", "%DLQ%billing", "%DLQ%shop%billing"),
    ("", "orders", "orders"),
    ("", "%RETRY%billing", "%RETRY%billing"),
    ("", "shop%orders", "shop%orders"),
]


@pytest.mark.parametrize(("namespace", "name", "full"), WRAPPED)
def test_a_name_is_wrapped_and_found_again(namespace: str, name: str, full: str) -> None:
    assert wrap_name(namespace, name) == full
    assert unwrap_name(namespace, full) == name


@pytest.mark.parametrize("full", ["shop%orders", "%RETRY%shop%billing"])
def test_a_name_that_has_the_namespace_is_not_wrapped_twice(full: str) -> None:
    assert wrap_name("shop", full) == full


@pytest.mark.parametrize("full", ["orders", "shop", "shopping%orders", "%RETRY%billing", "other%orders"])
def test_a_name_of_elsewhere_is_none_of_the_namespace(full: str) -> None:
    assert unwrap_name("shop", full) is None


def test_no_name_stays_no_name() -> None:
    assert wrap_name("shop", "") == ""
