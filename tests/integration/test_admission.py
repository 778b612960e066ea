"""How much a micro-batch takes: limits of messages and bytes, and waiting for enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql.functions import spark_partition_id

from pyspark_rmqpull.model import Bounds
from rmqpull_broker.core.model import Message
from rmqpull_broker.testing import RunningBroker, running_broker

if TYPE_CHECKING:
    from tests.integration.conftest import Queries, Run, Topic

WAIT_S = 120
INT64_MAX = 2**63 - 1


@pytest.fixture
def served(extensions: str) -> Iterator[RunningBroker]:
    """A broker in this process with topics "orders" and "others" of three queues."""
    with running_broker({"orders": 3, "others": 3}, extensions=extensions) as broker:
        yield broker


@pytest.fixture
def orders(topic: Topic, served: RunningBroker) -> Topic:
    return replace(topic, name="orders", endpoints=served.endpoints)
