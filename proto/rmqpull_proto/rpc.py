"""The services as tables, built from their descriptors. They replace generated gRPC stubs, without depending on gRPC:
servers register the methods, and clients call them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from rmqpull_proto.apache.rocketmq.v2 import service_pb2
from rmqpull_proto.rmqpull.v1 import admin_pb2, columns_pb2, stages_pb2


@dataclass(frozen=True)
class Method:
    """One method of a service."""

    name: str
    path: str  # in HTTP/2: /package.Service/Method
    request: type[Message]
    response: Any  # a message class, or a class with the same methods
    client_streaming: bool
    server_streaming: bool


@dataclass(frozen=True)
class Service:
    """A service with its full name, and its methods by name."""

    name: str
    methods: Mapping[str, Method]


def describe_service(descriptor: ServiceDescriptor) -> Service:
    """Makes the table of a service in ``rmqpull_proto.pool``."""
    methods = {method.name: _method(method) for method in descriptor.methods}
    return Service(descriptor.full_name, MappingProxyType(methods))


def _method(descriptor: MethodDescriptor) -> Method:
    return Method(
        name=descriptor.name,
        path=f"/{descriptor.containing_service.full_name}/{descriptor.name}",
        request=GetMessageClass(descriptor.input_type),
        response=GetMessageClass(descriptor.output_type),
        client_streaming=descriptor.client_streaming,
        server_streaming=descriptor.server_streaming,
    )


MESSAGING = describe_service(service_pb2.DESCRIPTOR.services_by_name["MessagingService"])
COLUMNS = describe_service(columns_pb2.DESCRIPTOR.services_by_name["ColumnService"])
ADMIN = describe_service(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])
STAGES = describe_service(stages_pb2.DESCRIPTOR.services_by_name["StageService"])
