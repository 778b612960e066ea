"""A worker that consumes a topic as a member of a consumer group. Start as many as you like, and kill any of them.

    python examples/worker.py 127.0.0.1:9876 orders workers

Each message is handled at least once: when a worker dies, the others get its queues from their consumer offsets on, and
handle again what it had handled since then. So ``handle`` should do no harm when it is called twice for one message.
"""

from __future__ import annotations

import signal
import sys

from rmqpull_client.consumers import LitePullConsumer, LitePullSettings, ReceivedMessage

SETTINGS = LitePullSettings(consume_from_where="CONSUME_FROM_FIRST_OFFSET", auto_commit=False)


def handle(message: ReceivedMessage) -> None:
    print(message.queue, message.queue_offset, message.body.decode(), flush=True)


def main(name_servers: str, topic: str, group: str) -> None:
    is_ending = False

    def end(number: int, frame: object) -> None:
        nonlocal is_ending
        is_ending = True

    signal.signal(signal.SIGTERM, end)
    with LitePullConsumer(name_servers, group, SETTINGS) as consumer:
        consumer.subscribe(topic)
        while not is_ending:
            for message in consumer.poll(timeout_ms=1_000):
                handle(message)
            consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
