"""Errors travel from tasks to the driver, and say whether another try may help."""

from __future__ import annotations

import pickle

import pytest

from rmqpull_client.errors import (
    BrokerUnavailable,
    DataLoss,
    HandshakeFailed,
    OptionError,
    RequestRefused,
    RmqpullError,
    TopicNotFound,
    Unserved,
)


@pytest.mark.parametrize("kind", [RmqpullError, OptionError, BrokerUnavailable, HandshakeFailed, DataLoss])
def test_an_error_survives_the_way_to_the_driver(kind: type[RmqpullError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(error), str(error)) == (kind, "what happened")


@pytest.mark.parametrize("kind", [RequestRefused, TopicNotFound, Unserved])
def test_a_refusal_keeps_its_code_on_the_way_to_the_driver(kind: type[RequestRefused]) -> None:
    error = pickle.loads(pickle.dumps(kind("TOPIC_NOT_FOUND", "no such topic")))
    assert (type(error), error.code, str(error)) == (kind, "TOPIC_NOT_FOUND", "no such topic")


def test_only_an_absent_broker_is_worth_another_try() -> None:
    kinds = (OptionError, BrokerUnavailable, HandshakeFailed, RequestRefused, DataLoss)
    assert [kind for kind in kinds if kind.retriable] == [BrokerUnavailable]
