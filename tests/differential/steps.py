"""Steps: requests as a generator writes them, with places for what only the run of a server knows.

A text may have such places. ``§`` is the beginning of the names of one run, which no other run has. The others stand in
angle brackets, with a number: ``⟨physical 2⟩`` is the physical offset of the third last message that was sent.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rmqpull_proto.remoting.command import Serialization

OWN = "§"
CLIENTS = 2
_PLACE = re.compile(r"⟨(\w+) (-?\d+)⟩")


@dataclass(frozen=True)
class Step:
    """A request, and the connection that sends it.

    ``body`` is the text of a JSON body, or bytes. ``is_held`` is for a pull that waits: its response is read after the
    next step, which ends the wait.
    """

    name: str
    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: str | bytes = b""
    client: int = 0
    serialization: Serialization = Serialization.JSON
    is_held: bool = False


@dataclass
class Seen:
    """What one server has told in a run: the values of places, oldest first."""

    own: str
    now_ms: int
    values: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, values: Sequence[str]) -> None:
        """Adds values of one kind."""
        self.values.setdefault(kind, []).extend(values)

    def fill(self, text: str) -> str:
        """Returns a text with its places filled. A value that is not known yet is 0."""
        return _PLACE.sub(self._find, text).replace(OWN, self.own)

    def _find(self, place: re.Match[str]) -> str:
        kind, number = place[1], int(place[2])
        if kind == "now":
            return str(self.now_ms + number)
        known = self.values.get(kind, [])
        return known[-1 - number % len(known)] if known else "0"


def encode_batch(messages: Sequence[tuple[bytes, str]]) -> bytes:
    """Returns the body of SEND_BATCH_MESSAGE: bodies with the texts of their properties (rules 4.10)."""
    return b"".join(
        struct.pack(">5i", 22 + len(body) + len(text.encode()), 0, 0, 0, len(body))
        + body
        + struct.pack(">h", len(text.encode()))
        + text.encode()
        for body, text in messages
    )
