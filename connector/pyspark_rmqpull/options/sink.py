"""The options of the sink: those of the connection and of sending, read and checked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark_rmqpull.options.connection import ConnectionOptions
from pyspark_rmqpull.options.cross_checks import SINK_CHECKS, refuse_server_choice
from pyspark_rmqpull.options.declaration import Mode, find_given, list_options, read_values
from pyspark_rmqpull.options.sending import SendingOptions
from rmqpull_client.connection import Connection


@dataclass(frozen=True, kw_only=True)
class SinkOptions(ConnectionOptions, SendingOptions):
    """The checked options of one write. docs/architecture.md lists where each option takes effect."""

    checkpoint_location: str | None = None
    """Spark's own option, which only a stream has."""

    @classmethod
    def from_options(cls, options: Mapping[str, str], mode: Mode | None = None) -> SinkOptions:
        """Reads and checks an option map from Spark; its names are case-insensitive. Raises OptionError."""
        given = find_given(OPTIONS, options, mode)
        refuse_server_choice(given)
        location = next((value for name, value in options.items() if name.lower() == "checkpointlocation"), None)
        checked = cls(**read_values(OPTIONS, options), checkpoint_location=location).choose_away_timeout(given)
        for refuse in SINK_CHECKS:
            refuse(given, checked)
        return checked

    @property
    def connection(self) -> Connection:
        """How to reach the broker, within the limits of sends."""
        connection = super().connection
        if self.send_msg_timeout is not None:
            connection = replace(connection, request_timeout_ms=self.send_msg_timeout)
        if self.retry_times_when_send_failed is not None:
            connection = replace(connection, request_retries=self.retry_times_when_send_failed)
        return connection


SINK_OPTIONS = list_options(SendingOptions)
OPTIONS = list_options(SinkOptions)
