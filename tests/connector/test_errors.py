"""The errors of queries keep their import path, and those of the client are the same classes."""

from __future__ import annotations

import pickle

import pytest

import pyspark_rmqpull.errors
import rmqpull_client.errors
from pyspark_rmqpull.errors import (
    BodyDamaged,
    CheckpointConflict,
    CommitGap,
    InvalidRowError,
    RmqpullError,
    TopicMissing,
)


@pytest.mark.parametrize(
    "name",
    ["BrokerUnavailable", "DataLoss", "HandshakeFailed", "OptionError", "RequestRefused", "RmqpullError"],
)
def test_the_old_path_of_a_client_s_error_gives_the_same_class(name: str) -> None:
    assert getattr(pyspark_rmqpull.errors, name) is getattr(rmqpull_client.errors, name)


@pytest.mark.parametrize("kind", [TopicMissing, CheckpointConflict, CommitGap, BodyDamaged, InvalidRowError])
def test_an_error_can_be_pickled(kind: type[RmqpullError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(error), str(error)) == (kind, "what happened")
