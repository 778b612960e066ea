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
from pyspark_rmqpull.schema import check_schema, row_schema
from pyspark_rmqpull.sink.schema import check_sink_schema
from rmqpull_client.errors import OptionError


class RmqpullDataSource(DataSource):
    """``spark.readStream.format("rmqpull")`` and ``spark.read.format("rmqpull")``, and the same with write.

    The options are :data:`pyspark_rmqpull.options.source.OPTIONS` and :data:`pyspark_rmqpull.options.sink.OPTIONS`.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rmqpull"

    def schema(self) -> StructType:
        """The row schema. Spark asks for it in ``load()``, so bad options are refused there, before any work.

        Spark does not say here whether the query is a stream or a batch (rules 7.7).
        """
        return row_schema(self._source_options().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch; what holds for a batch only is checked now, when Spark says that it is one.

        Raises OptionError.
        """
        options = self._source_options(Mode.BATCH)
        check_schema(schema, options.columns)
        # Imported here, since it needs grpc and pyarrow, which importing this package must not (see __init__).
        from pyspark_rmqpull.reading.batch_reader import RmqpullBatchReader

        return RmqpullBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a query.

        With a schema given by the user ``load()`` asked nothing, so options are checked again. Raises OptionError.
        """
        options = self._source_options(Mode.STREAM)
        check_schema(schema, options.columns)
        # Imported here, since it needs grpc and pyarrow, which importing this package must not (see __init__).
        from pyspark_rmqpull.reading.stream_reader import RmqpullStreamReader

        return RmqpullStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of ``df.write``, checked against server and topic before any row is sent. Raises OptionError."""
        if overwrite:
            raise OptionError('A topic cannot be overwritten. Use .mode("append"), which adds messages.')
        options = self._sink_options(schema)
        # Imported here, since it needs grpc and pyarrow, which importing this package must not (see __init__).
        from pyspark_rmqpull.sink.writers import RmqpullBatchWriter

        return RmqpullBatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of ``df.writeStream``. Mode complete, which says ``overwrite``, adds each whole result.

        Raises OptionError.
        """
        options = self._sink_options(schema)
        # Imported here, since it needs grpc and pyarrow, which importing this package must not (see __init__).
        from pyspark_rmqpull.sink.writers import RmqpullStreamWriter

        return RmqpullStreamWriter(options)

    def _source_options(self, mode: Mode | None = None) -> SourceOptions:
        refuse_other_side(OPTIONS, sink.OPTIONS, self.options, "writes, and this is a read")
        return SourceOptions.from_options(self.options, mode)

    def _sink_options(self, schema: StructType) -> sink.SinkOptions:
        refuse_other_side(sink.OPTIONS, OPTIONS, self.options, "reads, and this is a write")
        options = sink.SinkOptions.from_options(self.options)
        check_sink_schema(schema, options)
        # Imported here, since it needs grpc and pyarrow, which importing this package must not (see __init__).
        from pyspark_rmqpull.sink.targets import checked
        from rmqpull_client.transports.grpc.producer import get_producer

        return checked(get_producer(options.connection), options, schema.names)
