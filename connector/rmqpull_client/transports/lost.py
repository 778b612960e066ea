"""How many connections this process has lost: after each, the server may have restarted with other data."""

from __future__ import annotations


class LostConnections:
    """A counter that threads may share: of two losses at the same moment, it may count only one."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        """Counts a connection that was lost, or an attempt to connect that failed."""
        self.count += 1


LOST = LostConnections()
"""The connections of this process, to all servers."""
