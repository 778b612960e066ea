"""The query, a process of its own: from the topics into Parquet files, until it is killed, or to the end and then done.

The sink is Spark's own file sink: its tasks write, and ``_spark_metadata`` says which files count, so what is proven is
what users have, with nothing of ours between the source and the output. Where our sink is under test, it writes into a
topic instead, each message with the place that it was read from.
Standard output tells whoever started it: one line of JSON for each thing that happens.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

FAILURES_MAX = 20
"""In a row."""
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
    """Tells the process that started this one."""
    print(json.dumps({"event": event, **facts}), flush=True)


def messages(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """The stream as it is read."""
    return spark.readStream.format("rmqpull").options(**options).load()


def written(spark: SparkSession, config: dict[str, Any]) -> DataStreamWriter:
    """The stream on its way out."""
    stream = messages(spark, config["options"])
    if config["sink"] is None:
        return stream.selectExpr(*OUTPUT).writeStream.format("parquet").option("path", config["result"])
    copy, topics = stream.selectExpr(*COPY), config["copyTopics"]
    if len(topics) == 1:
        return copy.writeStream.format("rmqpull").options(**config["sink"], topic=topics[0])
    names = ", ".join(map(repr, topics))
    copy = copy.selectExpr("*", f"element_at(array({names}), pmod(hash(messageGroup), {len(topics)}) + 1) AS topic")
    return copy.writeStream.format("rmqpull").options(**config["sink"])


def run_once(spark: SparkSession, config: dict[str, Any], parent: int) -> None:
    """One life of the query: until AvailableNow is done, or for ever. Raises what ends it."""
    trigger = (
        {"availableNow": True} if config["availableNow"] else {"processingTime": f"{config['triggerMs']} milliseconds"}
    )
    query = written(spark, config).option("checkpointLocation", config["checkpoint"]).trigger(**trigger).start()
    say("running")
    while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # whole seconds only by its annotation
        if os.getppid() != parent:
            os._exit(1)  # nobody is left to kill it


def main(config: dict[str, Any]) -> None:
    """Goes on after every failure, which it tells; ``drain`` in the configuration ends it when all is read."""
    parent = os.getppid()
    session = SparkSession.builder.master(config["master"]).appName("soak").config(map=config["settings"])
    # The judge reads from the sink's log which batch wrote a file.
    spark = session.config("spark.sql.streaming.fileSink.log.deletion", "false").getOrCreate()
    say("started")
    failures = 0
    while failures < FAILURES_MAX:
        try:
            run_once(spark, config, parent)
        except (PySparkException, Py4JError) as error:  # the second when a worker is lost in load()
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
