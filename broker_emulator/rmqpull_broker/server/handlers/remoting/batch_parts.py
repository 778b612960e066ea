"""Large batches whose messages are read one by one: as columns, part by part, so that others have turns in between."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.messages.columns import from_rows
from rmqpull_broker.core.model import Message, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.storing import check_size

PART_ROWS = 100
"""A batch with fewer messages takes less than a slice of the event loop, also without columns."""


class PartReader:
    """Makes columns of the stored schema, without offsets and store times, and checks the sizes of messages.

    ``times`` is how often the messages were consumed again.
    """

    def __init__(self, properties: BrokerProperties, store_host: str, times: int) -> None:
        self._properties = properties
        self._store_host = store_host
        self._times = times
        self._refusal: BrokerError | None = None

    def read(self, messages: Iterator[Message]) -> Iterator[pa.RecordBatch]:
        """Yields part after part. Raises what reading ``messages`` raises."""
        while part := list(islice(messages, PART_ROWS)):
            if self._refusal is None:
                self._check(part)
            yield from_rows([StoredMessage(message, 0, 0, self._store_host, self._times) for message in part])

    def _check(self, part: list[Message]) -> None:
        try:
            for message in part:
                check_size(message, self._properties)
        except BrokerError as error:
            self._refusal = error

    def check_sizes(self) -> None:
        """Refuses a batch with a message that is too large, after all of it was read: what cannot be read comes first.

        Raises what :func:`check_size` raises.
        """
        if self._refusal is not None:
            raise self._refusal
