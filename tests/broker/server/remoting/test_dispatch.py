"""Requests that no handler serves, or that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from processes.apache.calls import Calls
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_broker(remoting=True) as broker:
        yield broker.remoting_addresses[0]


def test_an_unknown_code_is_answered(address: str) -> None:
    response = Calls().call(address, 31_000, refusals_allowed=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,))
    assert response.remark == " request type 31000 not supported"


def test_a_missing_field_is_named(address: str) -> None:
    response = Calls().call(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, refusals_allowed=(ResponseCode.SYSTEM_ERROR,))
    assert "topic" in response.remark
