"""Born hosts with and without a port (rules 4.7, 5.12.1)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_broker.core.messages.born_hosts import find_named_hosts, is_named, make_named_columns, remove_port

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
    named = [host if is_named(host) else None for host, _ in HOSTS][start:]
    assert find_named_hosts(hosts).to_pylist() == [*named, None]


def test_a_host_without_a_port_stands_for_the_properties_of_apaches_proxy() -> None:
    """In messages of older releases."""
    times = pa.array([1_000, 2_000], pa.timestamp("us", tz="UTC"))
    batch = pa.record_batch({"bornHost": ["10.0.0.2:5555", "laptop"], "bornTimestamp": times})
    named = {name: texts.to_pylist() for name, texts in make_named_columns(batch).items()}
    assert named == {"__BORNHOST": [None, "laptop"], "BORN_TIMESTAMP": [None, "2"]}
    assert make_named_columns(batch.slice(0, 1)) == {}
