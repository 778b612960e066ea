"""The data source that Spark finds under the name ``rmqpull``."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_rmqpull.options import sink
from pyspark_rmqpull.options.declaration import Mode, refuse_other_side
from pyspark_rmqpull.options.source import OPTIONS, SourceOptions
from pyspark_rmqpull.schema import check_schema, make_row_schema
from pyspark_rmqpull.sink.schema import check_sink_schema
from pyspark_rmqpull.spark_releases.triggers import refuse_limits_without_trigger
from rmqpull_client.errors import OptionError


class RmqpullDataSource(DataSource):
    """The format ``rmqpull`` of ``spark.readStream``, ``spark.read``, ``df.writeStream`` and ``df.write``.

    The options are :data:`pyspark_rmqpull.options.source.OPTIONS` and :data:`pyspark_rmqpull.options.sink.OPTIONS`.
    Methods import readers and writers only when they are called: those need grpc and pyarrow, which the import of
    this package must not need (see ``pyspark_rmqpull/__init__.py``). All methods raise OptionError for bad options.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rmqpull"

    def schema(self) -> StructType:
        """The schema of a row. ``load()`` asks for it before the mode is known (rules 7.7), and refuses bad options."""
        return make_row_schema(self._source_options().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch. It also refuses options of streams, since only now the mode is known."""
        options = self._source_options(Mode.BATCH)
        check_schema(schema, options.columns)
        from pyspark_rmqpull.reading.batch_reader import RmqpullBatchReader

        return RmqpullBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a stream. If the user gives a schema, it is the first to see the options."""
        options = self._source_options(Mode.STREAM)
        check_schema(schema, options.columns)
        from pyspark_rmqpull.reading.stream_reader import RmqpullStreamReader
        from pyspark_rmqpull.spark_releases.reading import make_stream_reader

        return make_stream_reader(RmqpullStreamReader(options, schema), options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of ``df.write``. Checks options with the server before any row is sent."""
        if overwrite:
            raise OptionError('A topic cannot be overwritten. Use .mode("append"), which adds messages.')
        options = self._sink_options(schema, Mode.BATCH)
        from pyspark_rmqpull.sink.writers import RmqpullBatchWriter

        return RmqpullBatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of ``df.writeStream``. Output mode complete sets ``overwrite``: it adds every whole result."""
        options = self._sink_options(schema, Mode.STREAM)
        from pyspark_rmqpull.sink.writers import RmqpullStreamWriter

        return RmqpullStreamWriter(options)

    def _source_options(self, mode: Mode | None = None) -> SourceOptions:
        _begin_call()
        refuse_other_side(OPTIONS, sink.OPTIONS, self.options, "writes, and this is a read")
        options = SourceOptions.from_options(self.options, mode)
        refuse_limits_without_trigger(options.limits, options.trigger)
        return options

    def _sink_options(self, schema: StructType, mode: Mode) -> sink.SinkOptions:
        _begin_call()
        refuse_other_side(sink.OPTIONS, OPTIONS, self.options, "reads, and this is a write")
        options = sink.SinkOptions.from_options(self.options, mode)
        check_sink_schema(schema, options)
        from pyspark_rmqpull.sink.targets import check_stream_targets, check_targets
        from rmqpull_client.transports.choice import get_producer

        if mode is Mode.STREAM:
            return check_stream_targets(options, schema.names)
        return check_targets(get_producer(options.connection, options.producer_group), options, schema.names)


def _begin_call() -> None:
    from pyspark_rmqpull.shared_memory import share_memory
    from pyspark_rmqpull.worker import drop_importers

    drop_importers()
    share_memory()
