"""Makes the partitions of a query on the driver: ranges of queues, allocated and split."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.partitions import assign_ranges
from pyspark_rmqpull.planning.splitting import Partition, split_by_bytes, split_partitions
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition
from rmqpull_client.errors import OptionError, RmqpullError
from rmqpull_client.model import QueueRange
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.transports.reached import Reached, list_reached

_logger = logging.getLogger(__name__)


def refuse_missing_sizes(options: SourceOptions, client: Callable[[], BrokerClient]) -> None:
    """Raises OptionError if a limit of bytes is set and the client cannot cut ranges by bytes.

    It calls ``client`` only for a limit of bytes.
    """
    if options.has_byte_limits and (lack := client().abilities.no_sizes) is not None:
        raise OptionError(lack)


def make_partitions(
    ranges: Iterable[QueueRange],
    creation_ids: Mapping[str, str],
    options: SourceOptions,
    client: Callable[[], BrokerClient],
    query_id: str | None = None,
) -> list[QueueRangesPartition]:
    """Allocates ranges to Spark partitions, and splits those that exceed a limit. Raises OptionError.

    It calls ``client`` only for a limit of bytes.
    """
    whole: Sequence[Partition] = assign_ranges(ranges, options.allocation)
    if options.max_bytes_per_partition is not None:
        whole = _try_to_split_by_bytes(whole, options.max_bytes_per_partition, client)
    parts = split_partitions(whole, options.min_partitions, options.max_records_per_partition)
    connection = options.connection

    @cache  # thousands of partitions may have the same topics
    def find_reached(topics: frozenset[str]) -> Reached:
        return list_reached(connection, topics)

    return [
        QueueRangesPartition(
            part, dict(creation_ids), query_id, find_reached(frozenset(entry.queue.topic for entry in part))
        )
        for part in parts
    ]


def _try_to_split_by_bytes(
    whole: Sequence[Partition], bytes_max: int, client: Callable[[], BrokerClient]
) -> Sequence[Partition]:
    """Splits partitions, or returns them whole when the broker does not answer.

    An error here would end the query, while the tasks may reach the broker again. When Spark plans a batch a second
    time and some messages are deleted by then, the splits may differ, but they cover the same ranges.
    """
    try:
        return split_by_bytes(whole, bytes_max, client())
    except OptionError:
        raise
    except RmqpullError as error:
        _logger.warning("This batch ignores maxBytesPerPartition: %s", error)
        return whole
