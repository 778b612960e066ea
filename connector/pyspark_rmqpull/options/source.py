"""The options of the source: all groups of options, read and checked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark_rmqpull.options.allocation import AllocationOptions
from pyspark_rmqpull.options.connection import ConnectionOptions
from pyspark_rmqpull.options.cross_checks import SOURCE_CHECKS, refuse_server_choice, refuse_topic_choice
from pyspark_rmqpull.options.declaration import Mode, find_given, list_options, read_values
from pyspark_rmqpull.options.flow import FlowOptions
from pyspark_rmqpull.options.micro_batch import MicroBatchOptions
from pyspark_rmqpull.options.progress import ProgressOptions
from pyspark_rmqpull.options.selection import SelectionOptions
from rmqpull_client.connection import Connection


@dataclass(frozen=True, kw_only=True)
class SourceOptions(
    ConnectionOptions, SelectionOptions, ProgressOptions, MicroBatchOptions, AllocationOptions, FlowOptions
):
    """The checked options of one query. docs/architecture.md lists where each option takes effect."""

    @classmethod
    def from_options(cls, options: Mapping[str, str], mode: Mode | None = None) -> SourceOptions:
        """Reads and checks an option map from Spark; its names are case-insensitive.

        Raises OptionError for an option that is unknown, missing, unreadable or in conflict with another. Checks the
        options of the other mode only when ``mode`` is known.
        """
        given = find_given(OPTIONS, options, mode)
        refuse_server_choice(given)
        refuse_topic_choice(given)
        checked = cls(**read_values(OPTIONS, options)).choose_away_timeout(given)
        for refuse in SOURCE_CHECKS:
            refuse(given, checked)
        return checked

    @property
    def connection(self) -> Connection:
        """How to reach the broker, under which client id, and where light message queues are."""
        return replace(super().connection, client_id=self.client_id, parent_topic=self.parent_topic)

    @property
    def has_byte_limits(self) -> bool:
        """Whether the broker must know the sizes of messages."""
        return (self.max_bytes_per_trigger, self.max_bytes_per_partition) != (None, None)


OPTIONS = list_options(SourceOptions)
