"""The query, a process of its own: it reads the topics into Parquet files until it is killed, or to the end.

It writes with Spark's own file sink, whose ``_spark_metadata`` lists the files that count: nothing of this project is
between the source and the output. If the sink of this project is tested, it writes to a topic instead, and each message
says which row it is a copy of. It prints a line of JSON for each event, for the process that started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_rmqpull import drain

FAILURES_MAX = 20
"""How often in a row it starts the query again before it gives up."""
LOOK_S = 0.2
OUTPUT = (
    "topic",
    "brokerName",
    "queueId",
    "queueOffset",
    "msgId",
    "keys[0] AS key",
    "tags AS tag",
    "md5(body) AS digest",
)


COPY = (
    "body",
    "tags",
    "keys",
    "concat_ws('/', topic, brokerName, queueId) AS messageGroup",
    "map('topic', topic, 'brokerName', brokerName, 'queueId', string(queueId), 'queueOffset', string(queueOffset), "
    "'msgId', msgId) AS properties",
)


def say(event: str, **facts: str) -> None:
    """Reports an event to the process that started this one."""
    print(json.dumps({"event": event, **facts}), flush=True)


def messages(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Returns the stream of the source."""
    return spark.readStream.format("rmqpull").options(**options).load()


def written(spark: SparkSession, config: dict[str, Any]) -> DataStreamWriter:
    """Returns the writer of the stream."""
    stream = messages(spark, config["options"])
    if config["sink"] is None:
        return stream.selectExpr(*OUTPUT).writeStream.format("parquet").option("path", config["result"])
    copy, topics = stream.selectExpr(*COPY), config["copyTopics"]
    if len(topics) == 1:
        return copy.writeStream.format("rmqpull").options(**config["sink"], topic=topics[0])
    names = ", ".join(map(repr, topics))
    copy = copy.selectExpr("*", f"element_at(array({names}), pmod(hash(messageGroup), {len(topics)}) + 1) AS topic")
    return copy.writeStream.format("rmqpull").options(**config["sink"])


def run_once(spark: SparkSession, config: dict[str, Any]) -> None:
    """Runs the query until AvailableNow is done, until everything is read, or without end.

    Raises the error that ends it.
    """
    writer = written(spark, config).option("checkpointLocation", config["checkpoint"])
    if config["drain"]:
        drain(writer)
        return
    trigger = (
        {"availableNow": True} if config["availableNow"] else {"processingTime": f"{config['triggerMs']} milliseconds"}
    )
    query = writer.trigger(**trigger).start()
    say("running")
    query.awaitTermination()


def end_without_parent(parent: int) -> None:
    """Ends this process when the one that would kill it is gone."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def main(config: dict[str, Any]) -> None:
    """Reports each failure and starts the query again. With ``drain`` it ends when everything is read."""
    threading.Thread(target=end_without_parent, args=[os.getppid()], daemon=True).start()
    session = SparkSession.builder.master(config["master"]).appName("soak").config(map=config["settings"])
    # The judge needs the whole log of the sink: which batch wrote which file.
    spark = session.config("spark.sql.streaming.fileSink.log.deletion", "false").getOrCreate()
    say("started")
    failures = 0
    while failures < FAILURES_MAX:
        try:
            run_once(spark, config)
        except (PySparkException, Py4JError) as error:  # the second if a worker dies during load()
            say("failed", why=str(error))
            failures += 1
        else:
            failures = 0
            if config["drain"]:
                break
        time.sleep(LOOK_S)
    spark.stop()
    sys.exit(failures > 0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
