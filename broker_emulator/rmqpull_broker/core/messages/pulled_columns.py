"""Stored columns in the form in which a pull of columns sends them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rmqpull_broker.core.messages.born_hosts import make_named_columns
from rmqpull_broker.core.messages.hidden_properties import drop_hidden_columns
from rmqpull_broker.core.messages.remoting_records import show_host
from rmqpull_proto.remoting.properties import TRACE_CONTEXT


def select_pulled_columns(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Returns columns of a stored batch for a pull.

    Born hosts are formatted as Java's clients show them. The trace context is among RocketMQ's own properties. What
    only clients of the remoting protocol see is left out.
    """
    pulled = batch.select(names)
    if "bornHost" in names:
        pulled = _replace(pulled, "bornHost", _show_hosts(pulled.column("bornHost")))
    if "systemProperties" not in names:
        return pulled
    own = drop_hidden_columns(batch.column("systemProperties"))
    for name, texts in {TRACE_CONTEXT: batch.column("traceContext"), **make_named_columns(batch)}.items():
        if texts.null_count < batch.num_rows:
            rows = zip(own.to_pylist(), texts.to_pylist(), strict=True)
            maps = [(each or []) + ([] if text is None else [(name, text)]) for each, text in rows]
            own = pa.array(maps, own.type)
    return _replace(pulled, "systemProperties", own)


def _show_hosts(hosts: pa.Array) -> pa.Array:
    """Formats each host once: there are few different ones, and most stay as they are."""
    encoded = hosts.dictionary_encode()
    stored = encoded.dictionary.to_pylist()
    shown = [show_host(host) for host in stored]
    return hosts if shown == stored else pa.array(shown, pa.string()).take(encoded.indices)


def _replace(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    index = batch.schema.get_field_index(name)
    return batch.set_column(index, batch.schema.field(index), column)
