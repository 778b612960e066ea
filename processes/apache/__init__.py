"""Apache RocketMQ as processes: name servers and brokers of a real cluster, for tests, demo and benchmarks.

    from processes.apache.cluster import make_cluster, make_replicated_cluster
    from processes.apache.releases import RELEASE_5

    with make_cluster(folder, masters=("broker-a", "broker-b")) as cluster:  # 2 to 3 s
        cluster.addresses                                  # the value of option nameServers
        cluster.administration.create_topic("orders", 8)   # milliseconds; see administration.py
        cluster.find_broker("broker-a").restart()          # SIGKILL; the same ports, the same messages

`cluster.py` also has clusters with a proxy, with a slave, with access keys and with TLS; `servers.py` the
single servers, their properties and the options of their JVMs. Apache's Java producer is started from Python, too:

    from processes.apache.java_clients import JavaProducer

    with JavaProducer(RELEASE_5, cluster.addresses, folder / "producer") as producer:
        producer.send("orders", "body", tags="red", shardingKey="customer-7")

`tests/clients/programs` has Apache's other clients.

What Apache's own classes say about bytes, in 0.1 ms:

    from processes.apache.oracle import JavaOracle, to_text

    with JavaOracle(RELEASE_5) as oracle:
        oracle.decode_messages(response_body)

Maven fetches the jars once into the user's cache. ``SoftwareMissing`` says why if it cannot. The process of a server
ends when the Python process that has started it ends.
"""
