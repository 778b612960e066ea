"""The changes that tests need not notice, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_BACKLOG = "connector/pyspark_rmqpull/reading/backlog.py"
KNOWN: Mapping[tuple[str, str, str], str] = {
    (_BACKLOG, "TopicWatch._find_start", "`time.time() * 1000`: 1000 becomes 1001"): (
        "the time is that of the system, and the messages of tests are from 1970"
    ),
    (
        "broker_emulator/rmqpull_broker/core/state/delayed_messages.py",
        "DelayedMessages.restore",
        "`not fact.has_lengths` is True",
    ): "what is added behind the four columns is never read",
    (
        "connector/pyspark_rmqpull/sink/encoding.py",
        "RowEncoder._find_invalid",
        "`'properties' in rows.schema.names and self._options.invalid_properties != DROP` without "
        "`self._options.invalid_properties != DROP`",
    ): "it only looks for properties that were dropped before",
    (_BACKLOG, "wait_for_topic", "`not is_logged` is True"): "it only logs again what it has logged before",
}
"""By module, function and change, as `python -m tests.mutants --list` prints them."""
