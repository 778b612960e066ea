"""Messages in Parquet files, as ``export`` writes them and as other programs do."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rmqpull_client.cli.message_lines import GIVEN_BY_BROKER, BadLine
from rmqpull_proto import columns

_PLACES = frozenset(("brokerName", "queueId"))
_SCHEMA = {field.name: field.type for field in columns.PUBLISH_SCHEMA if field.name not in _PLACES}


def read_parquet(file: str, defaults: Mapping[str, Any], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the messages of a file in batches of the publish schema. ``defaults`` are the columns that it lacks.

    Columns that brokers set are left out. Raises BadLine for a file that is not Parquet, or with other columns.
    """
    try:
        with pq.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
            for name in names:
                _check(name)
            if "body" not in names:
                raise BadLine(f"{file} has no column 'body'; it has {', '.join(names)}")
            wanted = [name for name in names if name in _SCHEMA]
            for batch in opened.iter_batches(batch_rows, columns=wanted):
                yield _convert(batch, defaults)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadLine(f"{file} cannot be read as messages: {error}") from None


def _check(name: str) -> None:
    if name not in _SCHEMA and name not in GIVEN_BY_BROKER | _PLACES | {"systemProperties"}:
        near = difflib.get_close_matches(name, _SCHEMA, 1)
        raise BadLine(f"unknown column {name!r}" + (f". Did you mean {near[0]!r}?" if near else ""))


def _convert(batch: pa.RecordBatch, defaults: Mapping[str, Any]) -> pa.RecordBatch:
    arrays = {name: batch.column(name).cast(_SCHEMA[name]) for name in batch.schema.names}
    arrays |= {
        name: pa.array([value] * batch.num_rows, _SCHEMA[name])
        for name, value in defaults.items()
        if name not in arrays
    }
    return pa.RecordBatch.from_arrays(
        list(arrays.values()), schema=pa.schema([(name, _SCHEMA[name]) for name in arrays])
    )
