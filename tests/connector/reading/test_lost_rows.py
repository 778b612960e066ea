"""Losses that a query survives are told, and not again while nothing has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyspark_rmqpull.reading.lost_rows import LossReport
from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.loss import Loss
from rmqpull_client.model import MessageQueue

if TYPE_CHECKING:
    from tests.connector.conftest import FakeClient

A0, A1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
FIRST = Loss(A0, 3, 5, "2 messages are gone.")
LATER = Loss(A0, 7, 9, "2 messages more are gone.")
OTHER = Loss(A1, 0, 4, "4 messages are gone.")


def test_a_loss_is_told_once_in_the_log_and_to_the_broker(broker: FakeClient, caplog: pytest.LogCaptureFixture) -> None:
    report = LossReport(lambda: broker, "query")
    for loss in (FIRST, OTHER, FIRST, OTHER, LATER):
        report.tell(loss)
    assert broker.lost == [("query", *loss[:3]) for loss in (FIRST, OTHER, LATER)]
    assert caplog.messages == [
        f"{loss.text} The query goes on, since failOnDataLoss is false." for loss in (FIRST, OTHER, LATER)
    ]


def test_only_the_newest_loss_of_a_queue_is_kept(broker: FakeClient) -> None:
    """A query that loses rows for months must not remember each time."""
    report = LossReport(lambda: broker, "query")
    for loss in (FIRST, LATER, FIRST):
        report.tell(loss)
    assert len(broker.lost) == 3


def test_rows_that_nobody_counts_are_not_reported(broker: FakeClient) -> None:
    LossReport(lambda: broker, "query").tell(FIRST._replace(until_offset=3))
    assert broker.lost == []


def test_a_broker_that_is_away_ends_no_query(caplog: pytest.LogCaptureFixture) -> None:
    def absent() -> FakeClient:
        raise BrokerUnavailable("nobody there")

    LossReport(absent, "query").tell(FIRST)
    assert caplog.messages[1:] == ["The broker does not count 2 lost rows: nobody there"]
