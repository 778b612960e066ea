"""A pytest plugin: the fixture ``rocketmq_broker`` is a broker of the test's own, in the test's own process.

    @pytest.mark.rocketmq(topics={"orders": 8}, clock="manual")
    def test_orders(rocketmq_broker):
        rocketmq_broker.send("orders", b"one")

The marker takes what ``running_broker`` takes, and may also stand at a class or a module (``pytestmark``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # pytest loads this in every session of whoever has the package: the broker itself can wait
    from rmqpull_broker.testing import RunningBroker


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers", "rocketmq(topics=None, **settings): what the fixture rocketmq_broker is started with"
    )


@pytest.fixture
def rocketmq_broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """A RocketMQ broker on a free port, gone when the test is over."""
    from rmqpull_broker.testing import running_broker

    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("rocketmq"))):  # the nearest one wins
        settings.update(marker.kwargs)
        if marker.args:
            settings["topics"] = marker.args[0]
    with running_broker(**settings) as broker:
        yield broker
