"""Stand-ins for classes of newer Sparks, with their names."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter


class ReadLimit:
    """How much a micro-batch may take."""


@dataclass
class ReadAllAvailable(ReadLimit):
    """Everything."""


@dataclass
class ReadMaxRows(ReadLimit):
    """At most about this many rows."""

    max_rows: int


class SupportsTriggerAvailableNow:
    """A stream reader that can be told to end where its source ends now. Older Sparks never do that."""


class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[misc]  # as Spark asks
    """A stream writer that takes Arrow batches. Spark 4.0 asks only whether a writer is a DataSourceArrowWriter."""
