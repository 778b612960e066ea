"""Filters on the wire, and the second look at tags that a client owes (rules 1.7.2)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.errors import OptionError, RequestRefused
from rmqpull_client.filters import SQL92, MessageFilter
from rmqpull_client.transports.port import QueueRows
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2


def expression_of(message_filter: MessageFilter) -> v2.FilterExpression:
    """A filter as both protocols carry it."""
    is_sql = message_filter.expression_type == SQL92
    return v2.FilterExpression(
        type=v2.FilterType.SQL if is_sql else v2.FilterType.TAG, expression=message_filter.expression
    )


def refuse_filter(message_filter: MessageFilter, refusal: RequestRefused) -> None:
    """Raises OptionError when a refusal is that of the filter itself."""
    if refusal.code == "ILLEGAL_FILTER_EXPRESSION" or "does not support consumer to filter" in str(refusal):
        raise OptionError(
            f"Option filterExpression is {message_filter.expression!r}, of filterType "
            f"{message_filter.expression_type}, which the broker does not evaluate. {refusal}"
        ) from None


def travelling(columns: Sequence[str], message_filter: MessageFilter) -> Sequence[str]:
    """The columns that must come for some to be wanted; none stands for all of them."""
    return [*columns, "tags"] if columns and message_filter.tags and "tags" not in columns else columns


def keep_tagged(rows: Sequence[QueueRows], message_filter: MessageFilter) -> list[QueueRows]:
    """The rows whose tag is one of the filter's, without queues that have none of them."""
    if not message_filter.tags:
        return list(rows)
    tags = pa.array(sorted(message_filter.tags), pa.string())
    kept = [
        QueueRows(queue, [batch.filter(pc.is_in(batch.column("tags"), value_set=tags)) for batch in batches])
        for queue, batches in rows
    ]
    return [entry for entry in kept if any(batch.num_rows for batch in entry.batches)]
