"""GetProperties over gRPC."""

from __future__ import annotations

import rmqpull_broker
from rmqpull_broker.core.properties import list_declared
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc
from tests.harness.rpc_client import RpcClient


def test_brokers_version_and_every_property_are_returned(client: RpcClient) -> None:
    answer = client.call("GetProperties", rpc.GetPropertiesRequest())
    assert (answer.version, list(answer.broker_names)) == (rmqpull_broker.__version__, ["broker-a"])
    properties = {entry.name: (entry.value, entry.default_value) for entry in answer.properties}
    assert list(properties) == sorted(entry.name for entry in list_declared())
    assert properties["fileReservedTime"] == ("72", "72")
    assert properties["traceOn"] == ("true", "true")
