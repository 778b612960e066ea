"""A broker built from its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.testing import running_broker


def test_a_broker_that_fails_to_start_unlocks_its_directory(tmp_path: Path) -> None:
    data_dir = str(tmp_path)
    with running_broker({"orders": 8}, data_dir=data_dir):
        pass
    with pytest.raises(BrokerError, match="8 queues"), running_broker({"orders": 4}, data_dir=data_dir):
        pass
    with running_broker({"orders": 8}, data_dir=data_dir) as broker:
        assert broker.endpoints
