"""Messages of the standard protocol become the same rows as those in columns."""

from __future__ import annotations

from rmqpull_client.transports.standard.rows import make_batch
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2


def test_a_message_group_is_a_column_and_not_a_user_property() -> None:
    message = v2.Message(
        user_properties={"colour": "red", "__SHARDINGKEY": "order-1"},
        system_properties=v2.SystemProperties(message_group="order-1", delivery_attempt=1),
    )
    [row] = make_batch([message], ["properties", "messageGroup", "reconsumeTimes"]).to_pylist()
    assert row == {"properties": [("colour", "red")], "messageGroup": "order-1", "reconsumeTimes": 0}
