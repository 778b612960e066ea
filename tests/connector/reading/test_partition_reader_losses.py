"""Losses that a query survives are reported, and not again as long as nothing has changed."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.reading.partition_reader import LossReport
from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.loss import Loss
from rmqpull_client.model import MessageQueue
from tests.harness.fake_broker_client import FakeBrokerClient

A0, A1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
FIRST = Loss(A0, 3, 5, "2 messages are lost.")
LATER = Loss(A0, 7, 9, "2 more messages are lost.")
OTHER = Loss(A1, 0, 4, "4 messages are lost.")


def test_a_loss_is_reported_once_to_the_log_and_to_the_broker(
    broker: FakeBrokerClient, caplog: pytest.LogCaptureFixture
) -> None:
    report = LossReport(lambda: broker, "query")
    for loss in (FIRST, OTHER, FIRST, OTHER, LATER):
        report.report(loss)
    assert broker.lost == [("query", *loss[:3]) for loss in (FIRST, OTHER, LATER)]
    assert caplog.messages == [
        f"{loss.text} Because failOnDataLoss is false, the query {loss.resume}." for loss in (FIRST, OTHER, LATER)
    ]


def test_a_report_remembers_only_the_newest_loss_of_a_queue(broker: FakeBrokerClient) -> None:
    """A query that loses rows for months must not remember each time."""
    report = LossReport(lambda: broker, "query")
    for loss in (FIRST, LATER, FIRST):
        report.report(loss)
    assert len(broker.lost) == 3


def test_an_unknown_number_of_rows_is_not_reported_to_the_broker(broker: FakeBrokerClient) -> None:
    LossReport(lambda: broker, "query").report(FIRST._replace(until_offset=3))
    assert broker.lost == []


def test_an_unreachable_broker_does_not_end_the_query(caplog: pytest.LogCaptureFixture) -> None:
    def absent() -> FakeBrokerClient:
        raise BrokerUnavailable("nobody there")

    LossReport(absent, "query").report(FIRST)
    assert caplog.messages[1:] == ["The broker did not count 2 lost rows: nobody there"]
