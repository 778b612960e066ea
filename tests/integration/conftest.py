"""One Spark session for all tests, one broker process of each kind, and a topic for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rmqpull_broker.testing import BrokerProcess
from tests.harness.broker_processes import StartBroker
from tests.harness.spark_queries import Queries, Topic

TOPICS_MAX = 200


@pytest.fixture(scope="session")
def spark(processes_allowed: None) -> Iterator[SparkSession]:
    """A session with the settings that the project recommends."""
    session = SparkSession.builder.master("local[2]").appName("rmqpull tests").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session", params=["columns", "none"])
def extensions(request: pytest.FixtureRequest) -> str:
    """Every test runs with a broker with the columnar extension, and with one without."""
    return str(request.param)


@pytest.fixture(scope="session")
def brokers() -> dict[str, BrokerProcess]:
    """The running brokers, by extensions."""
    return {}


@pytest.fixture
def broker(extensions: str, brokers: dict[str, BrokerProcess], start_session_broker: StartBroker) -> BrokerProcess:
    """The broker of this kind, shared by all tests, with topics of three queues."""
    if extensions not in brokers:
        topics = {f"topic-{number}": 3 for number in range(TOPICS_MAX)}
        brokers[extensions] = start_session_broker(topics, extensions=extensions)
    return brokers[extensions]


@pytest.fixture(scope="session")
def topic_numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def topic(broker: BrokerProcess, topic_numbers: Iterator[int]) -> Topic:
    """A topic of three queues that no other test uses."""
    return Topic(f"topic-{next(topic_numbers) % TOPICS_MAX}", broker.endpoints)


@pytest.fixture
def queries(spark: SparkSession, tmp_path: Path) -> Iterator[Queries]:
    yield Queries(spark, tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()
