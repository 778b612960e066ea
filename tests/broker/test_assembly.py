"""A broker built from its parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.testing import running_broker
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc
from tests.harness.rpc_client import Connect


def test_a_broker_that_fails_to_start_unlocks_its_directory(tmp_path: Path) -> None:
    data_dir = str(tmp_path)
    with running_broker({"orders": 8}, data_dir=data_dir):
        pass
    with pytest.raises(BrokerError, match="8 queues"), running_broker({"orders": 4}, data_dir=data_dir):
        pass
    with running_broker({"orders": 8}, data_dir=data_dir) as broker:
        assert broker.endpoints


def test_groups_with_settings_that_are_refused_now_can_be_read_and_changed(tmp_path: Path, connect: Connect) -> None:
    old = GroupConfig("readers", consume_broadcast_enable=False, notify_consumer_ids_changed_enable=False)
    with running_broker(data_dir=str(tmp_path)) as broker:
        broker.change(lambda draft: put_group(draft, old))
    with running_broker(data_dir=str(tmp_path)) as broker:
        assert broker.look(lambda state: state.groups["readers"]) == old
        client = connect(broker.endpoints)
        client.call("PutGroup", rpc.PutGroupRequest(name="readers", mode=rpc.UPDATE, retry_max_times=3))
        assert broker.look(lambda state: state.groups["readers"]) == replace(old, retry_max_times=3)
        client.call("PutGroup", rpc.PutGroupRequest(name="readers", mode=rpc.UPDATE, consume_broadcast_enable=True))
        assert broker.look(lambda state: state.groups["readers"].consume_broadcast_enable)
