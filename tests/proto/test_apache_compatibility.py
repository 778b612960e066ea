"""Our copy of apache.rocketmq.v2 and the published one have the same wire.

``published_v2.json`` holds the facts of the published files (the commit is named in it), taken from their descriptors
by ``facts`` below. Renew it only together with the ``.proto`` files of rmqpull_proto.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2, service_pb2

PACKAGE = "apache.rocketmq.v2"
PUBLISHED = json.loads(Path(__file__).with_name("published_v2.json").read_text(encoding="utf-8"))

Facts = dict[str, dict[str, object]]


def facts(files: Iterable[FileDescriptorProto]) -> dict[str, Facts]:
    """Messages, enums and methods by name, with everything that affects their encoding."""
    found: dict[str, Facts] = {"messages": {}, "enums": {}, "methods": {}}
    for file in files:
        assert file.package == PACKAGE
        for enum in file.enum_type:
            found["enums"][enum.name] = numbers(enum)
        for name, message in walk(file.message_type):
            found["messages"][name] = {field.name: field_facts(message, field) for field in message.field}
            found["enums"].update({f"{name}.{enum.name}": numbers(enum) for enum in message.enum_type})
        for service in file.service:
            found["methods"][service.name] = {
                rpc.name: [local(rpc.input_type), local(rpc.output_type), rpc.client_streaming, rpc.server_streaming]
                for rpc in service.method
            }
    return found


def walk(messages: Iterable[DescriptorProto], prefix: str = "") -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:
        yield prefix + message.name, message
        yield from walk(message.nested_type, f"{prefix}{message.name}.")


def numbers(enum: EnumDescriptorProto) -> dict[str, object]:
    return {value.name: value.number for value in enum.value}


def field_facts(message: DescriptorProto, field: FieldDescriptorProto) -> list[object]:
    """The number and type of a field, and "repeated", "optional", "oneof <name>" or nothing."""
    kind = local(field.type_name) or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return [field.number, kind, "repeated"]
    if field.proto3_optional:
        return [field.number, kind, "optional"]
    oneof = f"oneof {message.oneof_decl[field.oneof_index].name}" if field.HasField("oneof_index") else ""
    return [field.number, kind, oneof]


def local(type_name: str) -> str:
    return type_name.removeprefix(f".{PACKAGE}.")


def flat(facts_by_name: Facts) -> dict[str, object]:
    """One line per property, so that a difference is easy to find; an empty message is one too."""
    lines: dict[str, object] = dict.fromkeys(facts_by_name, "present")
    lines.update({f"{name}.{part}": fact for name, parts in facts_by_name.items() for part, fact in parts.items()})
    return lines


def our_files() -> list[FileDescriptorProto]:
    files = [FileDescriptorProto(), FileDescriptorProto()]
    for file, module in zip(files, (definition_pb2, service_pb2), strict=True):
        module.DESCRIPTOR.CopyToProto(file)
    return files


@pytest.mark.parametrize("kind", ["messages", "enums", "methods"])
def test_our_proto_files_have_exactly_the_published_wire(kind: str) -> None:
    ours, published = flat(facts(our_files())[kind]), flat(PUBLISHED[kind])
    differences = [
        f"{name}: published {published.get(name, 'nothing')}, ours {ours.get(name, 'nothing')}"
        for name in sorted(ours.keys() | published.keys())
        if ours.get(name) != published.get(name)
    ]
    assert not differences, "\n".join(differences)


def test_the_table_has_all_rows() -> None:
    counted = {kind: len(PUBLISHED[kind]) for kind in ("messages", "enums")}
    assert counted == {"messages": 67, "enums": 14}
    assert len(PUBLISHED["methods"]["MessagingService"]) == 17
