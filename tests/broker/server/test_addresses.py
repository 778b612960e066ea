"""Addresses as texts."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.addresses import find_host, join_address


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [("127.0.0.1", 8081, "127.0.0.1:8081"), ("broker", 0, "broker:0"), ("::1", 8081, "[::1]:8081")],
)
def test_an_ipv6_host_gets_brackets(host: str, port: int, text: str) -> None:
    assert join_address(host, port) == text


@pytest.mark.parametrize(
    ("address", "host"),
    [("127.0.0.1:8081", "127.0.0.1"), ("[::1]:5", "::1"), ("[fe80::1%eth0]:5", "fe80::1%eth0"), ("unix", ""), ("", "")],
)
def test_the_host_of_a_peer_has_no_brackets(address: str, host: str) -> None:
    assert find_host(address) == host
