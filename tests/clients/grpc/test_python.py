"""Each class of Apache's gRPC client for Python starts, works and shuts down without a warning on the emulator.

The client runs in another process: it starts threads, opens a log file in the home directory on import, and registers
the protocol's names in the default pool. Its log has its warnings.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.testing import Topics, running_broker

START = """
import sys, threading
from rocketmq import (ClientConfiguration, ConsumeResult, Credentials, FilterExpression, Message, MessageListener,
                      Producer, PushConsumer, SimpleConsumer)

configuration = ClientConfiguration(sys.argv[1], Credentials(), "")

def run(client, work):
    client.startup()
    # The client uses the server's settings, but only a push consumer waits for them.
    assert client._init_settings_event.wait(30)
    for endpoints in client.route_manager.get_all_endpoints().values():
        request = client._heartbeat_req()
        beat = client.rpc_client.heartbeat_async(endpoints, request, metadata=client.sign(), timeout=30)
        print("heartbeat", beat.result().status.message)
    work(client)
    client.shutdown()
"""

PRODUCER = """
def send(producer):
    message = Message()
    message.topic, message.body, message.tag, message.keys = "orders", b"a body", "red", "key"
    print("sent", producer.send(message).message_id[:2])
    print("told", producer._Producer__max_body_size, producer._Producer__validate_message_type)

run(Producer(configuration, ("orders",)), send)
"""

TRANSACTIONS = """
from rocketmq import TransactionChecker, TransactionResolution

asked = threading.Event()

class Checker(TransactionChecker):
    def check(self, message):
        print("asked after", message.body)
        asked.set()
        return TransactionResolution.COMMIT

def pay(producer, body):
    message = Message()
    message.topic, message.body = "payments", body
    transaction = producer.begin_transaction()
    producer.send(message, transaction)
    return transaction

def work(producer):
    pay(producer, b"kept").commit()
    pay(producer, b"dropped").rollback()
    pay(producer, b"forgotten")
    assert asked.wait(30)

run(Producer(configuration, ("payments",), Checker()), work)
"""

RECALL = """
import time

def work(producer):
    message = Message()
    message.topic, message.body, message.delivery_timestamp = "reminders", b"late", int(time.time()) + 60
    receipt = producer.send(message)
    recalled = producer.recall_message("reminders", receipt.recall_handle)
    print("recalled", recalled == receipt.message_id)

run(Producer(configuration, ("reminders",)), work)
"""

SIMPLE_CONSUMER = """
run(SimpleConsumer(configuration, "readers", {"orders": FilterExpression("red || blue")}, 5), lambda consumer: None)
"""

# It stops with its assignment: test_push_consumers.py shows what it receives.
PUSH_CONSUMER = """
class Listener(MessageListener):
    def consume(self, message):
        return ConsumeResult.SUCCESS

consumer = PushConsumer(configuration, "readers", Listener(), {"orders": FilterExpression()})
assigned, queues = threading.Event(), []

def take(assignments, topic):
    queues[:] = [assignment.message_queue.id for assignment in assignments]
    assigned.set()

def await_assignment(consumer):
    assert assigned.wait(30)
    print("assigned", queues)
    print("told", consumer.long_polling_timeout, consumer.receive_batch_size, consumer.fifo)

consumer._PushConsumer__update_topic_assignment = take
run(consumer, await_assignment)
"""

ITS_OWN_MISTAKE = "exception, 'NoneType' object has no attribute 'get_meter'"
"""Version 5.1.2 measures its push consumer even when the server's settings disable metrics."""


def talk(script: str, home: Path) -> tuple[list[str], list[str]]:
    """The output of a script, and the warnings and errors in the client's log."""
    topics: Topics = {"orders": 2, "payments": (1, TopicType.TRANSACTION), "reminders": (1, TopicType.DELAY)}
    # Half messages are checked soon.
    properties = BrokerProperties(transaction_time_out=100, transaction_check_interval=200)
    with running_broker(topics=topics, properties=properties) as broker:
        command = [sys.executable, "-c", START + script, broker.endpoints]
        environment = {**os.environ, "HOME": str(home)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    log = (home / "logs" / "rocketmq_python" / "rocketmq_client.log").read_text(encoding="utf-8")
    complaints = [line for line in log.splitlines() if "[INFO]" not in line and not line.endswith(ITS_OWN_MISTAKE)]
    return done.stdout.splitlines(), complaints


@pytest.mark.processes
@pytest.mark.clients_small
@pytest.mark.parametrize(
    ("script", "printed"),
    [
        (PRODUCER, ["heartbeat OK", "sent 01", "told 4194304 True"]),
        (TRANSACTIONS, ["heartbeat OK", "asked after b'forgotten'"]),
        (RECALL, ["heartbeat OK", "recalled True"]),
        (SIMPLE_CONSUMER, ["heartbeat OK"]),
        (PUSH_CONSUMER, ["heartbeat OK", "assigned [-1]", "told 20 32 False"]),
    ],
    ids=["Producer", "transactions", "recall", "SimpleConsumer", "PushConsumer"],
)
def test_the_official_client_works_without_a_warning(script: str, printed: list[str], tmp_path: Path) -> None:
    """Python, each class: it starts, works and shuts down without a warning in its log, on the emulator."""
    assert talk(script, tmp_path) == (printed, [])
