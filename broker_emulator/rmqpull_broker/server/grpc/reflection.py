"""The service grpc.reflection.v1alpha, for tools such as grpcurl that have no protos."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from google.protobuf.descriptor import FileDescriptor

from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_broker.server.grpc.plain_calls import Context, make_plain_handler
from rmqpull_proto.grpc.reflection.v1alpha import reflection_pb2
from rmqpull_proto.pool import POOL
from rmqpull_proto.rpc import describe_service

REFLECTION = describe_service(reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"])

_Response = reflection_pb2.ServerReflectionResponse


def enable_reflection(server: grpc.aio.Server, services: Sequence[str], shares: CallShares) -> None:
    """Describes the services to callers, including reflection itself."""
    names = sorted((*services, REFLECTION.name))
    listed = reflection_pb2.ListServiceResponse(service=[reflection_pb2.ServiceResponse(name=name) for name in names])

    async def answer(request: reflection_pb2.ServerReflectionRequest, context: Context) -> None:
        response = _answer(request, listed)
        response.original_request.CopyFrom(request)
        await context.write(response)

    handlers = {"ServerReflectionInfo": answer}
    server.add_generic_rpc_handlers([make_plain_handler(REFLECTION, handlers, shares)])


def _answer(
    request: reflection_pb2.ServerReflectionRequest, listed: reflection_pb2.ListServiceResponse
) -> reflection_pb2.ServerReflectionResponse:
    asked = request.WhichOneof("message_request")
    if asked == "list_services":
        return _Response(list_services_response=listed)
    try:
        if asked == "file_by_filename":
            return _describe(POOL.FindFileByName(request.file_by_filename))
        if asked == "file_containing_symbol":
            return _describe(POOL.FindFileContainingSymbol(request.file_containing_symbol))
        if asked == "all_extension_numbers_of_type":
            name = POOL.FindMessageTypeByName(request.all_extension_numbers_of_type).full_name
            none = reflection_pb2.ExtensionNumberResponse(base_type_name=name)
            return _Response(all_extension_numbers_response=none)
    except KeyError:
        return _refuse(grpc.StatusCode.NOT_FOUND)
    # Queries for extensions find nothing: proto3 does not have them.
    return _refuse(grpc.StatusCode.INVALID_ARGUMENT if asked is None else grpc.StatusCode.NOT_FOUND)


def _describe(file: FileDescriptor) -> reflection_pb2.ServerReflectionResponse:
    found = {file.name: file}
    _add_imports(file, found)
    files = [each.serialized_pb for each in found.values()]
    return _Response(file_descriptor_response=reflection_pb2.FileDescriptorResponse(file_descriptor_proto=files))


def _add_imports(file: FileDescriptor, found: dict[str, FileDescriptor]) -> None:
    for each in file.dependencies:
        if each.name not in found:
            found[each.name] = each
            _add_imports(each, found)


def _refuse(status: grpc.StatusCode) -> reflection_pb2.ServerReflectionResponse:
    number, name = status.value
    return _Response(error_response=reflection_pb2.ErrorResponse(error_code=number, error_message=name))
