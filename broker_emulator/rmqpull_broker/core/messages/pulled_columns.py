"""Stored columns in the form in which a pull of columns sends them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rmqpull_broker.core.messages.born_hosts import remove_ports
from rmqpull_broker.core.messages.hidden_properties import drop_hidden_columns
from rmqpull_proto.remoting.properties import TRACE_CONTEXT


def select_pulled_columns(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Returns columns of a stored batch for a pull.

    The trace context is among RocketMQ's own properties. What only clients of the remoting protocol see is left out.
    """
    pulled = batch.select(names)
    if "bornHost" in names:
        pulled = _replace(pulled, "bornHost", remove_ports(pulled.column("bornHost")))
    if "systemProperties" not in names:
        return pulled
    own = drop_hidden_columns(batch.column("systemProperties"))
    traces = batch.column("traceContext")
    if traces.null_count < batch.num_rows:
        rows = zip(own.to_pylist(), traces.to_pylist(), strict=True)
        maps = [(each or []) + ([] if trace is None else [(TRACE_CONTEXT, trace)]) for each, trace in rows]
        own = pa.array(maps, own.type)
    return _replace(pulled, "systemProperties", own)


def _replace(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    index = batch.schema.get_field_index(name)
    return batch.set_column(index, batch.schema.field(index), column)
