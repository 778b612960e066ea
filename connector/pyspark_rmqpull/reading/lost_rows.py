"""``failOnDataLoss=false``: losses are told once in the log and to the broker, and the query goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqpull_client.errors import RmqpullError
from rmqpull_client.loss import Loss
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.port import BrokerClient

_logger = logging.getLogger(__name__)


class LossReport:
    """Tells of losses in the name of a query, whose id the checkpoint keeps; the broker counts them for it."""

    def __init__(self, client: Callable[[], BrokerClient], query_id: str) -> None:
        self.query_id = query_id
        self._client = client
        self._told: dict[MessageQueue, Loss] = {}

    def tell(self, loss: Loss) -> None:
        """Never raises, and says nothing twice in a row: planning meets the same loss until a batch is behind it."""
        if self._told.get(loss.queue) == loss:
            return
        self._told[loss.queue] = loss
        _logger.warning("%s The query goes on, since failOnDataLoss is false.", loss.text)
        if loss.from_offset == loss.until_offset:
            return
        try:
            self._client().report_lost(self.query_id, [loss])
        except RmqpullError as error:
            _logger.warning("The broker does not count %d lost rows: %s", loss.until_offset - loss.from_offset, error)
