"""All that differs between Spark's releases. The rest of the package never checks a version.

====================================  ============================  ==============================
what                                  PySpark 4.0 and 4.1           PySpark 4.2 and newer
====================================  ============================  ==============================
who applies limits                    the source, by its own start  the source, by Spark's start
                                      and option ``trigger``        and limit
AvailableNow                          one micro-batch               micro-batches within the limits
``sources[].latestOffset``            the end of the micro-batch    what ``reportLatestOffset`` says
offsets of a progress, in Python      Python's repr                 JSON
class of a stream writer with Arrow   none in 4.0                   ``DataSourceStreamArrowWriter``
what a worker reads before each call  directories of its archives   nothing
====================================  ============================  ==============================

:mod:`~pyspark_rmqpull.spark_releases.release` says what this Spark has,
:mod:`~pyspark_rmqpull.spark_releases.reading` makes the stream reader that it can run, and
:mod:`~pyspark_rmqpull.spark_releases.progress` reads its progress. The facts are in rules 7.12.
:func:`pyspark_rmqpull.worker.drop_importers` spares workers that reading, on any Spark.
"""
