"""Apache's classic Java clients as processes: what tests start beside the producer of `processes/apache`.

Consumers and `mqadmin` are in `consumer.py` and `mqadmin.py`. Many clients of all kinds share one JVM, for scenarios:

    from tests.clients.programs.java.many_clients import JavaClients

    with JavaClients(RELEASE_4, folder / "clients") as jvm:
        consumer = jvm.start("push", "member-1", cluster.addresses, "readers", topic="orders", ordered=True)
        consumer.consumed                                  # all that it has consumed so far
"""

from pathlib import Path

SOURCES = Path(__file__).parent / "rmqpull"
"""Java programs that build on those of `processes/apache/java`."""
