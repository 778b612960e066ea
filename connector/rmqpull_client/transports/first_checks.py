"""What to check first at an address that does not respond, depending on what was seen there."""

from __future__ import annotations

import re

_CHECKS = (
    (
        re.compile("refused", re.IGNORECASE),
        "Nothing listens on this port: check first that the server is running, then the port",
    ),
    (
        re.compile("resol|name or service|nodename|no address associated", re.IGNORECASE),
        "The host name is unknown: check its spelling first",
    ),
)
_OTHERWISE = "Check first that the host and the port are right, and that no firewall is in the way"


def name_first_check(seen: str, option: str) -> str:
    """Returns the sentence for an address where no server has answered yet.

    ``seen`` is what the attempts met, and ``option`` the name of the option with the address.
    """
    check = next((check for words, check in _CHECKS if words.search(seen)), _OTHERWISE)
    return f"{check} (option {option}). No server has answered there yet."


def ask_for_restart(server: str, option: str | None) -> str:
    """Returns the sentences for a server that has answered before.

    ``server`` is its kind. ``option`` is the option that limited the wait, or None if something else did.
    """
    more = f" Raise option {option} if it takes longer to restart." if option else ""
    return f"It has answered before: check that the {server} is running.{more}"
