"""Names are wrapped and unwrapped as RocketMQ's NamespaceUtil does."""

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
def test_a_name_is_wrapped_and_unwrapped(namespace: str, name: str, full: str) -> None:
    assert wrap_name(namespace, name) == full
    assert unwrap_name(namespace, full) == name


@pytest.mark.parametrize("full", ["shop%orders", "%RETRY%shop%billing"])
def test_a_wrapped_name_is_not_wrapped_again(full: str) -> None:
    assert wrap_name("shop", full) == full


@pytest.mark.parametrize("full", ["orders", "shop", "shopping%orders", "%RETRY%billing", "other%orders"])
def test_a_name_outside_the_namespace_is_not_unwrapped(full: str) -> None:
    assert unwrap_name("shop", full) is None


def test_an_empty_name_stays_empty() -> None:
    assert wrap_name("shop", "") == ""
