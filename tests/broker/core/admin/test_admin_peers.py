"""Which addresses of peers may administrate, and the errors for values that name no address."""

from __future__ import annotations

import re

import pytest

from rmqpull_broker.core.admin.admin_peers import LOOPBACK_PEERS, parse_admin_peers

HERE = ("127.0.0.1", "127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1", "[::ffff:7f00:1]")
OTHERS = ("10.1.2.3", "172.17.0.1", "fe80::1%eth0", "2001:db8::7", "::ffff:10.1.2.3", "::127.0.0.1", "126.255.255.255")
UNREADABLE = ("", "localhost", "/tmp/broker.sock", "unix", "127.0.0.1:5", "127.1", "0x7f.0.0.1", "1", "[]", "%")


@pytest.mark.parametrize(
    ("setting", "allowed", "refused"),
    [
        ("loopback", HERE, OTHERS + UNREADABLE),
        ("all", HERE + OTHERS, UNREADABLE),
        ("none", (), HERE + OTHERS + UNREADABLE),
        ("10.0.0.0/8", ("10.1.2.3", "::ffff:10.1.2.3"), (*HERE, "11.0.0.0", "172.17.0.1")),
        ("172.17.0.1", ("172.17.0.1", "::ffff:172.17.0.1"), ("172.17.0.2", "127.0.0.1")),
        ("::ffff:10.0.0.0/104", ("10.1.2.3", "::ffff:10.1.2.3"), ("11.0.0.0", "::1")),
        ("::ffff:10.1.2.3", ("10.1.2.3",), ("10.1.2.4",)),
        ("fe80::/10", ("fe80::1", "fe80::1%eth0", "[fe80::1%25]"), ("2001:db8::7", "10.1.2.3")),
        ("::/0", ("::1", "2001:db8::7"), ("127.0.0.1", "::ffff:127.0.0.1")),
        ("loopback, 10.0.0.0/255.0.0.0", (*HERE, "10.1.2.3"), ("172.17.0.1",)),
    ],
)
def test_a_peer_may_administrate_if_its_address_is_named(
    setting: str, allowed: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    peers = parse_admin_peers(setting)
    assert [host for host in allowed if not peers.allows(host)] == []
    assert [host for host in refused if peers.allows(host)] == []


def test_without_a_setting_only_loopback_may() -> None:
    assert parse_admin_peers("loopback") == LOOPBACK_PEERS


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("", "'' is not an IP address or network"),
        ("loopback,", "'' is not an IP address or network"),
        ("localhost", "'localhost' is not an IP address or network"),
        ("10.0.0.0/33", "'10.0.0.0/33' is not an IP address or network"),
        ("10.0.0.0/8/8", "'10.0.0.0/8/8' is not an IP address or network"),
        ("fe80::1%eth0", "'fe80::1%eth0' is not an IP address or network"),
        ("ALL", "'ALL' is not an IP address or network"),
        ("none,loopback", "'none' is not an IP address or network"),
        ("10.1.2.3/8", "'10.1.2.3/8' is an address within the network 10.0.0.0/8: give one of them"),
    ],
)
def test_a_value_that_names_no_addresses_is_refused(setting: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        parse_admin_peers(setting)


@pytest.mark.parametrize(
    ("setting", "described", "added"),
    [
        ("loopback", "loopback addresses", "loopback,172.17.0.1"),
        ("all", "everybody", "all,172.17.0.1"),
        ("none", "nobody", "172.17.0.1"),
        ("10.0.0.0/8,loopback", "10.0.0.0/8, loopback addresses", "10.0.0.0/8,loopback,172.17.0.1"),
    ],
)
def test_a_refusal_can_say_who_may_and_how_to_allow_one_more(setting: str, described: str, added: str) -> None:
    peers = parse_admin_peers(setting)
    assert (peers.describe(), peers.add("172.17.0.1")) == (described, added)
    assert parse_admin_peers(peers.add("172.17.0.1")).allows("172.17.0.1")
