"""What clients say about themselves: bodies of requests, as JSON (rules 3.6, 3.7, 4.3).

Enums are texts. A client in C++ sends their positions in Java's classes, which fastjson reads too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rmqpull_broker.server.remoting.wire.json_values import (
    REQUEST_VALUES_MAX,
    as_object,
    read_enum,
    read_object,
    read_objects,
    read_value,
)
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData, Subscription
from rmqpull_proto.remoting.json_dialect import read_json, write_json

CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


def decode_heartbeat(body: bytes | memoryview) -> HeartbeatData:
    """Reads the body of HEART_BEAT. Raises ``WireError``."""
    data = read_object(body, "heartbeat", values_max=REQUEST_VALUES_MAX)
    if data.get("consumerDataSet", ()) is None:  # Java's code reads it, but one that is missing is empty
        raise WireError("consumerDataSet of the heartbeat is null, expected objects")
    return HeartbeatData(
        client_id=read_value(data, "clientID", str, ""),
        consumers=tuple(map(_read_membership, read_objects(data, "consumerDataSet"))),
        producer_groups=tuple(read_value(each, "groupName", str, "") for each in read_objects(data, "producerDataSet")),
        fingerprint=read_value(data, "heartbeatFingerprint", int, 0),
        without_sub=read_value(data, "withoutSub", bool, False),
    )


def _read_membership(data: Mapping[str, Any]) -> GroupMembership:
    return GroupMembership(
        read_value(data, "groupName", str, ""),
        read_enum(data, "consumeType", CONSUME_TYPES, "CONSUME_PASSIVELY"),
        read_enum(data, "messageModel", MESSAGE_MODELS, "CLUSTERING"),
        read_enum(data, "consumeFromWhere", CONSUME_FROM_WHERE, "CONSUME_FROM_LAST_OFFSET"),
        tuple(map(_read_subscription, read_objects(data, "subscriptionDataSet"))),
    )


def _read_subscription(data: Mapping[str, Any]) -> Subscription:
    version = data.get("subVersion")
    return Subscription(
        read_value(data, "topic", str, ""),
        read_value(data, "subString", str, ""),
        None if version is None else read_value(data, "subVersion", int, 0),
        read_value(data, "expressionType", str, "TAG"),
    )


def decode_client_check(body: bytes | memoryview) -> Subscription | None:
    """Reads the subscription of CHECK_CLIENT_CONFIG; None if there is none. Raises ``WireError``."""
    if not body:
        return None
    whole = read_json(body, values_max=REQUEST_VALUES_MAX)
    if whole is None or whole == []:  # fastjson reads both as no object
        return None
    data = read_value(as_object(whole, "client"), "subscriptionData", dict, None)
    return None if data is None else _read_subscription(data)


def encode_client_ids(client_ids: Iterable[str]) -> bytes:
    """Writes the body of the response to GET_CONSUMER_LIST_BY_GROUP."""
    return write_json({"consumerIdList": list(client_ids)})
