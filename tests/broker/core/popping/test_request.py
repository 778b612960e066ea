"""A pop: which requests cannot be kept."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.popping.request import ATTEMPT_ID_LENGTH_MAX, PopRequest, PopResult


def test_an_attempt_id_has_a_longest_length() -> None:
    PopRequest("readers", "orders", "broker-a", attempt_id="x" * ATTEMPT_ID_LENGTH_MAX).check()
    with pytest.raises(BadRequest, match="has 256 characters, more than 255: use a UUID"):
        PopRequest("readers", "orders", "broker-a", attempt_id="x" * (ATTEMPT_ID_LENGTH_MAX + 1)).check()


def test_a_result_without_messages_is_empty() -> None:
    assert (PopResult(0, 0, 0).message_count, PopResult(0, 0, 999).is_ordered) == (0, True)
