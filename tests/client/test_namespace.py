"""Names within a namespace, as RocketMQ's NamespaceUtil wraps and unwraps them."""

from __future__ import annotations

import pytest

from rmqpull_client.namespace import plain, wrapped

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
    assert wrapped(namespace, name) == full
    assert plain(namespace, full) == name


@pytest.mark.parametrize("full", ["shop%orders", "%RETRY%shop%billing"])
def test_a_name_that_has_the_namespace_is_not_wrapped_twice(full: str) -> None:
    assert wrapped("shop", full) == full


@pytest.mark.parametrize("full", ["orders", "shop", "shopping%orders", "%RETRY%billing", "other%orders"])
def test_a_name_of_elsewhere_is_none_of_the_namespace(full: str) -> None:
    assert plain("shop", full) is None


def test_no_name_stays_no_name() -> None:
    assert wrapped("shop", "") == ""
