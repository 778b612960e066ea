"""The client's part in message filters, which the broker evaluates."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.errors import FilterRefused, OptionError
from rmqpull_client.model import MessageFilter
from rmqpull_client.transports.port import QueueRows


def make_filter_error(message_filter: MessageFilter, refusal: FilterRefused) -> OptionError:
    """Returns the error for a filter that the broker does not evaluate."""
    return OptionError(
        f"The broker does not evaluate the filter expression {message_filter.expression!r} of type "
        f"{message_filter.expression_type} (options filterExpression and filterType). {refusal}"
    )


def columns_to_pull(columns: Sequence[str], message_filter: MessageFilter) -> Sequence[str]:
    """Returns the requested columns, plus ``tags`` if the client checks tags. No columns stands for all columns."""
    return [*columns, "tags"] if columns and message_filter.tags and "tags" not in columns else columns


def keep_matching_tags(rows: Sequence[QueueRows], message_filter: MessageFilter) -> list[QueueRows]:
    """Returns the rows whose tag is in the filter, without queues that have no such rows.

    The broker compares only hashes of tags (rules 1.7.2).
    """
    if not message_filter.tags:
        return list(rows)
    tags = pa.array(sorted(message_filter.tags), pa.string())
    kept = [
        QueueRows(queue, [batch.filter(pc.is_in(batch.column("tags"), value_set=tags)) for batch in batches])
        for queue, batches in rows
    ]
    return [entry for entry in kept if any(batch.num_rows for batch in entry.batches)]
