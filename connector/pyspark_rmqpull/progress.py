"""The group's progress on the broker, for people and lag tools; the checkpoint is the truth."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pyspark_rmqpull.client.port import BrokerClient
from pyspark_rmqpull.errors import RmqpullError
from pyspark_rmqpull.model import MessageQueue
from pyspark_rmqpull.offsets import QueueOffsets

_logger = logging.getLogger(__name__)


class GroupProgress:
    """Commits what Spark has finished. Without a group it does nothing.

    Spark tells of the end of a batch only when it plans the next one, and never of the last; but each planning begins
    with the end of the last finished batch (connectors § 3.4 no. 3, 4), so both come here.
    """

    def __init__(self, client: Callable[[], BrokerClient], group: str | None) -> None:
        self._client = client
        self._group = group
        self._committed: Mapping[MessageQueue, int] = {}

    def commit(self, finished: QueueOffsets) -> None:
        """Sets the group's offsets, unless they are set already. Never raises: a query must not fail for it."""
        if self._group is None or finished.is_initial or finished.offsets == self._committed:
            return
        try:
            self._client().commit(self._group, finished.offsets)
        except RmqpullError as error:
            _logger.warning("Group %s keeps its old offsets until the next batch: %s", self._group, error)
        else:
            self._committed = finished.offsets
