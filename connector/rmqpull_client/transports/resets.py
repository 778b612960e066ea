"""What a client does when the broker tells it of a reset of its group."""

from __future__ import annotations

import logging

from rmqpull_client.model import MessageQueue

_logger = logging.getLogger(__name__)


def log_reset(group: str, queue: MessageQueue, offset: int) -> None:
    """A reset of the group is told once, and moves no query: where that reads, its checkpoint says."""
    _logger.warning("Group %s was reset to offset %d of queue %s; the query goes on where it is", group, offset, queue)
