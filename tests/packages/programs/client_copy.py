"""Publishes messages and reads them again, with the client alone: client_copy.py SERVERS TOPIC, where SERVERS is the
endpoints of rmqpull-broker, or the name servers of a cluster after ``nameServers=``.
"""

import sys
import time

import pyarrow as pa

from rmqpull_client import Connection, QueueRange, connect

servers, topic = sys.argv[1:]
_, of_cluster, name_servers = servers.rpartition("nameServers=")
connection = Connection(name_servers=name_servers) if of_cluster else Connection(servers)
client = connect(connection)
client.publish(topic, pa.record_batch({"body": [b"one", b"two", b"three"], "tags": ["a", "b", None]}))
bounds = client.query_bounds([topic])[topic].queues
for _attempt in range(600):  # a real broker shows messages a moment after it has stored them
    if sum(bound.max_offset for bound in bounds.values()) == 3:
        break
    time.sleep(0.1)
    bounds = client.query_bounds([topic])[topic].queues
ranges = [QueueRange(queue, bound.min_offset, bound.max_offset) for queue, bound in bounds.items()]
answers = client.read("copies", ranges, ["body", "tags"])
rows = [row for step in answers for _, batches in step for batch in batches for row in batch.to_pylist()]
print(sorted(f"{row['body'].decode()} {row['tags']}" for row in rows))
