"""A broker in this process, and a client of it."""

from __future__ import annotations

from collections.abc import Callable

from rmqpull_broker.core import model
from rmqpull_broker.core.pulling.consumer_offsets import ResetRequest, invoke_reset
from rmqpull_broker.testing import RunningBroker
from rmqpull_client.connection import Connection
from rmqpull_client.flow import Flow
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_client.transports.port import BrokerClient
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING

TIMEOUT_MS = 60_000


FLOW = Flow(pull_batch_size=256)


class ServedBroker:
    """A broker with a topic "orders", and a client of it: of the remoting protocol if the broker speaks it."""

    def __init__(self, broker: RunningBroker, flow: Flow = FLOW) -> None:
        self.broker = broker
        self.endpoints = broker.endpoints
        connection = Connection(self.endpoints, TIMEOUT_MS)
        if broker.remoting_addresses:
            connection = Connection(name_servers=broker.remoting_addresses[0], request_timeout_ms=TIMEOUT_MS)
        self.client: BrokerClient = connect(connection, flow)

    def send(self, *bodies: bytes) -> None:
        """Sends messages one after the other, with the standard protocol, which every broker has."""
        channel = get_channel(Connection(self.endpoints, TIMEOUT_MS))
        for body in bodies:
            message = v2.Message(topic=v2.Resource(name="orders"), body=body)
            message.system_properties.message_id = "m"
            channel.call(MESSAGING.methods["SendMessage"], service.SendMessageRequest(messages=[message]))

    def reset(self, group: str, queue_id: int = -1, offset: int = -1) -> None:
        """Resets consumer offsets as `mqadmin` does: of one queue to an offset, or of all to their beginning."""
        queue = None if queue_id < 0 else model.MessageQueue("orders", "broker-a", queue_id)
        request = ResetRequest(group, "orders", queue, offset, timestamp_ms=0 if queue is None else -1)
        self.broker.change(lambda draft: invoke_reset(draft, request))


ServeBroker = Callable[..., ServedBroker]
"""What tests take. For Apache's broker it returns a ``ServedApache``, which has the same methods and no ``broker``."""
