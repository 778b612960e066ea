"""The services as tables."""

import pytest

from rmqpull_proto.apache.rocketmq.v2 import service_pb2
from rmqpull_proto.rmqpull.v1 import columns_pb2
from rmqpull_proto.rpc import ADMIN, COLUMNS, MESSAGING, STAGES, Method, Service


def test_a_method_has_a_path_message_types_and_streaming() -> None:
    assert MESSAGING.methods["PullMessage"] == Method(
        name="PullMessage",
        path="/apache.rocketmq.v2.MessagingService/PullMessage",
        request=service_pb2.PullMessageRequest,
        response=service_pb2.PullMessageResponse,
        client_streaming=False,
        server_streaming=True,
    )


def test_the_extension_is_a_service_of_its_own() -> None:
    assert COLUMNS.methods["PullColumns"].path == "/rmqpull.v1.ColumnService/PullColumns"
    assert COLUMNS.methods["PullColumns"].request is columns_pb2.PullColumnsRequest


@pytest.mark.parametrize(
    ("service", "name", "method_count", "streaming"),
    [
        (MESSAGING, "apache.rocketmq.v2.MessagingService", 17, {"ReceiveMessage", "PullMessage", "Telemetry"}),
        (COLUMNS, "rmqpull.v1.ColumnService", 8, set()),
        (ADMIN, "rmqpull.v1.AdminService", 23, set()),
        (STAGES, "rmqpull.v1.StageService", 4, set()),
    ],
)
def test_services_have_all_methods(service: Service, name: str, method_count: int, streaming: set[str]) -> None:
    assert (service.name, len(service.methods)) == (name, method_count)
    assert {method.name for method in service.methods.values() if method.server_streaming} == streaming
    assert {method.name for method in service.methods.values() if method.client_streaming} == streaming & {"Telemetry"}


def test_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        MESSAGING.methods["Another"] = MESSAGING.methods["Heartbeat"]  # type: ignore[index]
