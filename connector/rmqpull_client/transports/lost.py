"""How many connections this process has lost: after each, a server may have been started again with other data."""

from __future__ import annotations


class LostConnections:
    """Counts. Threads may share it: of two losses at the same moment it may count one."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        """Counts a connection that was lost, or an attempt to connect that failed."""
        self.count += 1


LOST = LostConnections()
"""The connections of this process, to all servers."""
