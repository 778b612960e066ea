"""What an attack is: a declared row, and the function that attacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

ATTACKED = "attacked"
"""The topic that attacks send to and pull from."""
QUEUES = 8
CLIENT_ID = "attacker"


@dataclass(frozen=True)
class Target:
    """The addresses of a broker, each as ``host:port``."""

    remoting: str
    grpc: str
    metrics: str

    def to_text(self) -> str:
        """Returns it as an argument for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Target:
        """Reads what ``to_text`` has written."""
        return cls(**json.loads(text))


Run = Callable[[Target], Iterator[object]]
"""Attacks for as long as it is iterated. It yields once when it is prepared, and then after each step."""


@dataclass(frozen=True)
class Attack:
    """A row of the table. ``sends`` says what it sends, ``bounded_by`` which limit bounds it."""

    name: str
    sends: str
    bounded_by: str
    run: Run
    with_tls: bool = False
    """Whether the broker has a certificate, so that each connection begins with a choice of TLS or not."""
