"""What errors say to check first."""

from __future__ import annotations

import pytest

from rmqpull_client.transports.first_checks import ask_for_restart, name_first_check


@pytest.mark.parametrize(
    ("seen", "first"),
    [
        ("Connection refused", "Nothing listens on this port: check first that the server is running"),
        ("Failed to connect to remote host: connect: Connection refused (111)", "Nothing listens on this port"),
        ("[Errno -2] Name or service not known", "The host name is unknown: check its spelling first"),
        ("DNS resolution failed for broker:8081: C-ares status is not ARES_SUCCESS", "The host name is unknown"),
        ("[Errno -3] Temporary failure in name resolution", "The host name is unknown"),
        ("no connection", "Check first that the host and the port are right, and that no firewall is in the way"),
        ("Deadline Exceeded", "Check first that the host and the port are right"),
    ],
)
def test_what_was_seen_decides_what_to_check_first(seen: str, first: str) -> None:
    text = name_first_check(seen, "nameServers")
    assert text.startswith(first)
    assert text.endswith(" (option nameServers). No server has answered there yet.")


def test_a_server_that_has_answered_before_is_perhaps_restarted() -> None:
    assert ask_for_restart("broker", None) == "It has answered before: check that the broker is running."
    assert ask_for_restart("broker", "x").endswith(" Raise option x if it takes longer to restart.")
