"""Witnesses: what a reader remembers of a message that it has passed, to detect later that history was rewritten.

A server's data may be restored from a backup, lose its tail in a crash, or belong to a topic that was created again. If
the queue has grown past the reader's offset since then, its bounds do not show it. The message before that offset does:
it is a different one now.
"""

from __future__ import annotations

from typing import NamedTuple

DIGEST_BYTES = 6
"""48 bits: two different messages look the same once in 280 trillion times."""
PULLS_MAX = 500
"""The messages that one look may ask for. A micro-batch makes two: it compares witnesses, and records new ones."""
BYTES_MAX = 8 << 20
"""About how many bytes of messages one look may get."""


class Witness(NamedTuple):
    """A message of a queue: its offset, its store time in milliseconds, and a digest of its id and its body.

    ``protocol`` names the transport that has read it. Transports may show ids and bodies of a message differently, so
    only witnesses of the same one can be compared.
    """

    offset: int
    store_ms: int
    digest: str
    protocol: str

    def contradicts(self, other: Witness) -> bool:
        """Whether the two are different messages at the same offset."""
        is_comparable = (self.offset, self.protocol) == (other.offset, other.protocol)
        return is_comparable and (self.store_ms, self.digest) != (other.store_ms, other.digest)
