"""Publishes messages and reads them again, with Spark: spark_copy.py SERVERS TOPIC, where SERVERS is the endpoints of
rmqpull-broker, or the name servers of a cluster after ``nameServers=``. It reads a batch, and then a stream.
"""

import sys
import tempfile
import time

from pyspark.sql import SparkSession

WAIT_S = 180
servers, topic = sys.argv[1:]
_, of_cluster, name_servers = servers.rpartition("nameServers=")
options = {"nameServers": name_servers} if of_cluster else {"endpoints": servers}
options |= {"topic": topic}
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
sent = [(bytearray(b"one"), "a"), (bytearray(b"two"), "b"), (bytearray(b"three"), None)]
messages = spark.createDataFrame(sent, "body BINARY, tags STRING").coalesce(1)
messages.write.format("rmqpull").options(**options).mode("append").save()
for _attempt in range(100):  # a real broker shows messages a moment after it has stored them
    rows = spark.read.format("rmqpull").options(**options).load().collect()
    if len(rows) == len(sent):
        break
    time.sleep(0.5)
with tempfile.TemporaryDirectory() as folder:
    stream = spark.readStream.format("rmqpull").options(**options, startingOffsets="earliest").load()
    writer = stream.writeStream.format("memory").queryName("copied").option("checkpointLocation", folder)
    assert writer.trigger(availableNow=True).start().awaitTermination(WAIT_S)
    assert spark.table("copied").count() == len(rows)
spark.stop()
print(sorted(f"{bytes(row['body']).decode()} {row['tags']}" for row in rows))
