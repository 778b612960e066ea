"""Born hosts with and without a port (rules 4.7, 5.12.1)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_broker.core.messages.born_hosts import find_named_hosts, is_named, remove_port, remove_ports

HOSTS = [
    ("10.0.0.2:5555", "10.0.0.2"),
    ("[::1]:5555", "0:0:0:0:0:0:0:1"),
    ("[fe80::a0%eth0]:5555", "fe80:0:0:0:0:0:0:a0"),
    ("[::ffff:10.0.0.2]:5555", "10.0.0.2"),
    ("[no address]:5555", "[no address]:5555"),
    ("[zz]:5555", "zz"),
    ("10.0.0.2", "10.0.0.2"),
    ("::1", "::1"),
    ("host", "host"),
    ("host:5555", "host:5555"),
    ("", ""),
]


@pytest.mark.parametrize(("host", "expected"), HOSTS)
def test_a_port_is_removed_from_an_address(host: str, expected: str) -> None:
    assert remove_port(host) == expected
    assert is_named(host) == (host == expected != "")


@pytest.mark.parametrize("start", [0, 3, 6])
def test_columns_follow_the_same_rule_in_each_slice(start: int) -> None:
    hosts = pa.array([host for host, _ in HOSTS] + [None], pa.string()).slice(start)
    expected = [without for _, without in HOSTS][start:]
    assert remove_ports(hosts).to_pylist() == [*expected, None]
    named = [host if is_named(host) else None for host, _ in HOSTS][start:]
    assert find_named_hosts(hosts).to_pylist() == [*named, None]


def test_hosts_without_a_colon_are_not_touched() -> None:
    hosts = pa.array(["10.0.0.2:5", "a", "b", "c:1"]).slice(1, 2)
    assert remove_ports(hosts) is hosts
    assert remove_ports(pa.array([], pa.string())).to_pylist() == []
