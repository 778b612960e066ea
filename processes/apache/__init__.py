"""Apache RocketMQ as processes: name servers and brokers of a real cluster, for tests, demo and benchmarks.

    from processes.apache.releases import RELEASE_5
    from processes.apache.servers import Broker, NameServer

    name_server = NameServer(release=RELEASE_5, folder=folder / "name-server")
    name_server.start()
    broker = Broker(release=RELEASE_5, folder=folder / "broker-a", name_servers=name_server.address)
    broker.start()                                   # 3 s; until it is registered
    broker.administration.create_topic("orders", 8)  # milliseconds; see processes/apache/administration.py
    broker.restart()                                 # SIGKILL, and the same ports and messages
    broker.release_ports()                           # the end; so do it with the name server

What Apache's classes say about bytes:

    from processes.apache.oracle import JavaOracle, to_text

    with JavaOracle(RELEASE_5) as oracle:
        oracle.decode_messages(response_body)        # 0.1 ms; see processes/apache/oracle.py

Maven fetches the jars once into the user's cache. ``SoftwareMissing`` says why if it cannot. The process of a server
ends when the Python process that has started it ends.
"""
