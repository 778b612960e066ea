"""Copies a topic through the proxy of a cluster, with TLS and an access key: one query from one topic to another.

usage: ROCKETMQ_ACCESS_KEY=copier ROCKETMQ_SECRET_KEY=... python examples/through_proxy.py PROXY CA_FILE FOLDER

PROXY is the address of the proxy's port for the remoting protocol, such as proxy-1.example:8080, and CA_FILE holds the
authority that signed its certificate. The topics exist, and the user may do what the query needs:

    mqadmin updateTopic -n NAME_SERVER -c DefaultCluster -t orders
    mqadmin updateTopic -n NAME_SERVER -c DefaultCluster -t copies
    mqadmin createUser -n NAME_SERVER -c DefaultCluster -u copier -p ...
    mqadmin createAcl -n NAME_SERVER -c DefaultCluster -s User:copier -r Topic:orders,Group:copier -a Sub,Get -d Allow
    mqadmin updateAcl -n NAME_SERVER -c DefaultCluster -s User:copier -r Topic:copies -a Pub -d Allow

It processes all messages and ends. Run it again when there are more: it continues from the checkpoint in FOLDER.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(proxy: str, ca_file: Path, folder: Path) -> None:
    """Copies the messages of the topic ``orders`` to ``copies``, with their tags and keys."""
    spark = SparkSession.builder.appName("through a proxy").getOrCreate()
    connection = {
        "nameServers": proxy,
        "accessKey": os.environ["ROCKETMQ_ACCESS_KEY"],
        "secretKey": os.environ["ROCKETMQ_SECRET_KEY"],
        "tlsEnabled": "true",
        "tlsCaFile": str(ca_file),
    }
    orders = (
        spark.readStream.format("rmqpull")
        .options(**connection)
        .option("topic", "orders")
        .option("consumerGroup", "copier")
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        orders.select("body", "tags", "keys")
        .writeStream.format("rmqpull")
        .options(**connection)
        .option("topic", "copies")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"copied: {sum(progress.sink.numOutputRows for progress in query.recentProgress)}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
