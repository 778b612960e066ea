"""Errors can be pickled, and say whether a retry may help."""

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
    RowsRefused,
    TopicNotFound,
    Unserved,
)


@pytest.mark.parametrize("kind", [RmqpullError, OptionError, BrokerUnavailable, HandshakeFailed, DataLoss])
def test_an_error_can_be_pickled(kind: type[RmqpullError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(error), str(error)) == (kind, "what happened")


@pytest.mark.parametrize("kind", [RequestRefused, TopicNotFound, Unserved])
def test_a_pickled_refusal_keeps_its_class_and_code(kind: type[RequestRefused]) -> None:
    error = pickle.loads(pickle.dumps(kind("TOPIC_NOT_FOUND", "no such topic")))
    assert (type(error), error.code, str(error)) == (kind, "TOPIC_NOT_FOUND", "no such topic")


def test_pickled_refused_rows_keep_their_reasons() -> None:
    error = pickle.loads(pickle.dumps(RowsRefused("MESSAGE_ILLEGAL", "two rows are illegal", {3: "a", 7: "b"})))
    assert (type(error), error.code, error.reasons) == (RowsRefused, "MESSAGE_ILLEGAL", {3: "a", 7: "b"})


def test_only_an_unavailable_broker_is_retriable() -> None:
    kinds = (OptionError, BrokerUnavailable, HandshakeFailed, RequestRefused, DataLoss)
    assert [kind for kind in kinds if kind.retriable] == [BrokerUnavailable]
