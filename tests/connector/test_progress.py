"""The group's offsets on the broker: they follow the query and never stop it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

import pytest

from pyspark_rmqpull.client import BrokerClient
from pyspark_rmqpull.client.channel import Unserved
from pyspark_rmqpull.errors import BrokerUnavailable, RequestRefused
from pyspark_rmqpull.model import MessageQueue
from pyspark_rmqpull.offsets import QueueOffsets
from pyspark_rmqpull.progress import GroupProgress
from rmqpull_proto.rpc import MESSAGING

QUEUE = MessageQueue("orders", "a", 0)
AT_5, AT_7 = QueueOffsets({QUEUE: 5}), QueueOffsets({QUEUE: 7})


class FakeClient:
    """Takes commits, or fails as told."""

    def __init__(self) -> None:
        self.commits: list[tuple[str, dict[MessageQueue, int]]] = []
        self.failure: Exception | None = None

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        if self.failure is not None:
            raise self.failure
        self.commits.append((group, dict(offsets)))


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def progress(client: FakeClient) -> GroupProgress:
    return GroupProgress(lambda: cast("BrokerClient", client), "billing")


def test_each_position_is_committed_once(progress: GroupProgress, client: FakeClient) -> None:
    for position in (AT_5, AT_5, QueueOffsets(AT_5.offsets, starts={QUEUE: 1}), AT_7, AT_7):
        progress.commit(position)
    assert client.commits == [("billing", {QUEUE: 5}), ("billing", {QUEUE: 7})]


def test_the_offset_before_the_first_batch_is_not_committed(progress: GroupProgress, client: FakeClient) -> None:
    progress.commit(QueueOffsets())
    assert client.commits == []


def test_without_a_group_nobody_is_asked() -> None:
    def no_client() -> BrokerClient:
        raise AssertionError("no broker is needed")

    GroupProgress(no_client, None).commit(AT_5)


@pytest.mark.parametrize(
    "failure",
    [
        BrokerUnavailable("nobody there"),
        RequestRefused("INTERNAL_SERVER_ERROR", "no"),
        Unserved("127.0.0.1:8081", MESSAGING.methods["UpdateOffset"]),
    ],
)
def test_a_failure_is_logged_and_tried_again_at_the_next(
    progress: GroupProgress, client: FakeClient, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    client.failure = failure
    with caplog.at_level(logging.WARNING):
        progress.commit(AT_5)
    assert f"Group billing keeps its old offsets until the next batch: {failure}" in caplog.text
    client.failure = None
    progress.commit(AT_5)
    assert client.commits == [("billing", {QUEUE: 5})]


def test_a_broker_that_cannot_be_reached_stops_nothing() -> None:
    def unreachable() -> BrokerClient:
        raise BrokerUnavailable("nobody there")

    GroupProgress(unreachable, "billing").commit(AT_5)
