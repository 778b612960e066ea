"""A group for the tests of commands about groups."""

from __future__ import annotations

import pytest

from rmqpull_broker.testing import RunningBroker
from rmqpull_client import MessageQueue, connect

FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))


@pytest.fixture
def a_group_that_is_behind(broker: RunningBroker) -> None:
    """Five messages in each queue of ``orders``, of which ``readers`` have consumed four and one."""
    broker.send("orders", *(b"%d" % number for number in range(10)))
    client = connect(broker.endpoints)
    client.set_consumer_offsets("readers", {FIRST: 4, SECOND: 1})
    client.close()
