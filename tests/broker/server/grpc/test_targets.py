"""What a call is about, and the fault rules that it meets."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultRule, Target
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.fault_names import check_names
from rmqpull_broker.server.grpc.targets import find_targets, match_faults
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

ORDERS = v2.Resource(name="orders")
QUEUE = v2.MessageQueue(topic=ORDERS, id=1)
ROUTE = service.QueryRouteRequest(topic=ORDERS)
PULL = service.PullMessageRequest(group=v2.Resource(name="g"), message_queue=QUEUE, batch_size=32)
SEND = service.SendMessageRequest(
    messages=[v2.Message(topic=ORDERS, body=b"x", system_properties=v2.SystemProperties(message_id="m"))]
)


def test_calls_of_the_admin_service_are_never_affected() -> None:
    faults = Faults(ManualClock(), check_names)
    faults.add(FaultRule("*", FaultAction.DROP, times=None))
    assert match_faults(faults, "QueryRoute", "", ROUTE).before is not None
    assert match_faults(faults, "DeleteFaultRules", "", ROUTE) == (None, None)


@pytest.mark.parametrize(
    ("request_", "targets"),
    [
        (ROUTE, [Target("orders")]),
        (PULL, [Target("orders", None, 1)]),
        (SEND, [Target("orders")]),
        (
            service.SendMessageRequest(
                messages=[v2.Message(topic=v2.Resource(name="a", resource_namespace="ns"), user_properties={"k": "v"})]
            ),
            [Target("ns%a")],
        ),
        (
            service.UpdateOffsetRequest(message_queue=v2.MessageQueue(topic=ORDERS, broker=v2.Broker(name="broker-b"))),
            [Target("orders", "broker-b", 0)],
        ),
        (
            v1.PullColumnsRequest(
                queues=[v1.QueuePull(queue=v1.Queue(topic=topic, broker_name="b", queue_id=2)) for topic in "xy"]
            ),
            [Target("x", "b", 2), Target("y", "b", 2)],
        ),
        (v1.PublishColumnsRequest(topic="orders", arrow_ipc=b"x"), [Target("orders")]),
        (v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic="orders")]), [Target("orders")]),
        (
            v1.CommitOffsetsRequest(offsets=[v1.QueueOffset(queue=v1.Queue(topic="orders", broker_name="b"))]),
            [Target("orders", "b", 0)],
        ),
        (
            v1.ReportRowsLostRequest(ranges=[v1.LostRange(queue=v1.Queue(topic="orders", broker_name="b"))]),
            [Target("orders", "b", 0)],
        ),
        (
            v1.CutRangesRequest(ranges=[v1.RangeToCut(queue=v1.Queue(topic="orders", broker_name="b"))]),
            [Target("orders", "b", 0)],
        ),
        (v1.DescribeServerRequest(), []),
    ],
    ids=lambda value: value.DESCRIPTOR.name if hasattr(value, "DESCRIPTOR") else "",
)
def test_the_queues_of_a_request_are_found_at_any_depth(request_: Any, targets: list[Target]) -> None:
    assert list(find_targets(request_)) == targets
