"""A pytest plugin. The fixture ``rocketmq_broker`` runs a broker for one test, in the process of the test.

    @pytest.mark.rocketmq(topics={"orders": 8}, clock="manual")
    def test_orders(rocketmq_broker):
        rocketmq_broker.send("orders", b"one")

The marker takes the arguments of ``running_broker``. It can also mark a class or a module (``pytestmark``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # pytest imports this module in every session, so the broker is imported later
    from rmqpull_broker.testing import RunningBroker


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers", "rocketmq(topics=None, **settings): settings of the broker of the fixture rocketmq_broker"
    )


@pytest.fixture
def rocketmq_broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """A RocketMQ broker on a free port, which stops at the end of the test."""
    from rmqpull_broker.testing import running_broker

    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("rocketmq"))):  # the nearest one wins
        settings.update(marker.kwargs)
        if marker.args:
            settings["topics"] = marker.args[0]
    with running_broker(**settings) as broker:
        yield broker
