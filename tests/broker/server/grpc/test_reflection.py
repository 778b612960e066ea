"""grpc.reflection.v1alpha: what a tool without protos finds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import Default, DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from rmqpull_proto import rpc
from tests.harness.rpc_client import RpcClient
from tests.harness.server import ServerHarness, run_on_server

if TYPE_CHECKING:
    import grpc


OURS = [
    "apache.rocketmq.v2.MessagingService",
    "rmqpull.v1.AdminService",
    "rmqpull.v1.ColumnService",
    "rmqpull.v1.StageService",
]
INVALID_ARGUMENT, NOT_FOUND = 3, 5  # codes of gRPC
THEIRS = ["grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"]


@pytest.fixture
def database(client: RpcClient) -> ProtoReflectionDescriptorDatabase:
    channel: grpc.Channel = client.channel
    return ProtoReflectionDescriptorDatabase(channel)


def test_every_service_is_listed(database: ProtoReflectionDescriptorDatabase) -> None:
    assert list(database.get_services()) == sorted(OURS + THEIRS)


@pytest.mark.parametrize("name", OURS + THEIRS)
def test_every_service_is_described_with_its_dependencies(
    database: ProtoReflectionDescriptorDatabase, name: str
) -> None:
    found = DescriptorPool(database).FindServiceByName(name)
    assert found.methods
    assert all(method.input_type.full_name for method in found.methods)


def test_messages_made_from_reflection_are_understood(
    database: ProtoReflectionDescriptorDatabase, client: RpcClient
) -> None:
    described = DescriptorPool(database).FindServiceByName(OURS[0]).methods_by_name["QueryRoute"]
    request: Any = GetMessageClass(described.input_type)()
    request.topic.name = "orders"
    call = client.channel.unary_unary(
        rpc.MESSAGING.methods["QueryRoute"].path,
        GetMessageClass(described.input_type).SerializeToString,
        GetMessageClass(described.output_type).FromString,
    )
    answer: Any = call(request, timeout=60, metadata=(("x-mq-client-id", "curious"),))
    assert (answer.status.message, len(answer.message_queues)) == ("OK", 2)


def test_an_unknown_name_is_not_found() -> None:
    async def story(server: ServerHarness) -> None:
        call: Any = server.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        request = reflection_pb2.ServerReflectionRequest
        extension = reflection_pb2.ExtensionRequest(containing_type="rmqpull.v1.PullColumnsRequest", extension_number=9)
        asked = [
            request(file_containing_symbol="rmqpull.v1.Nothing"),
            request(file_by_filename="nothing.proto"),
            request(file_containing_extension=extension),
            request(all_extension_numbers_of_type="rmqpull.v1.Nothing"),
        ]
        answers = [answer async for answer in call(iter(asked), timeout=60)]
        assert [answer.error_response.error_code for answer in answers] == [NOT_FOUND] * 4
        assert [answer.original_request for answer in answers] == asked
        [answer] = [answer async for answer in call(iter([request()]), timeout=60)]
        assert answer.error_response.error_code == INVALID_ARGUMENT
        await asyncio.sleep(0)

    run_on_server(story)


def test_a_message_has_no_extensions(database: ProtoReflectionDescriptorDatabase) -> None:
    assert list(database.FindAllExtensionNumbers("rmqpull.v1.PullColumnsRequest")) == []


@pytest.mark.processes
def test_our_messages_stay_out_of_the_default_pool(client: RpcClient) -> None:
    # In another process: other tests load the official client's descriptors into this one.
    program = """
from google.protobuf.descriptor_pool import Default
from rmqpull_broker.testing import running_broker

with running_broker(topics={"orders": 1}):
    for name in ("apache.rocketmq.v2.MessagingService", "rmqpull.v1.ColumnService"):
        try:
            Default().FindServiceByName(name)
        except KeyError:
            print("absent")
    import rocketmq.grpc_protocol.service_pb2
    print(Default().FindServiceByName("apache.rocketmq.v2.MessagingService").name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["absent", "absent", "MessagingService"], done.stderr


def test_the_descriptors_of_reflection_are_files_of_protobuf(database: ProtoReflectionDescriptorDatabase) -> None:
    file = database.FindFileContainingSymbol("rmqpull.v1.PullColumnsRequest")
    assert isinstance(file, FileDescriptorProto)
    assert file.package == "rmqpull.v1"
    assert "apache/rocketmq/v2/definition.proto" in file.dependency
    with pytest.raises(KeyError):
        Default().FindFileByName("rmqpull/v1/columns.proto")
