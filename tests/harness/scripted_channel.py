"""Channels that return prepared responses, and responses to pulls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1


class FixedChannel:
    """Returns the same response to every request."""

    endpoints = "127.0.0.1:1"

    def __init__(self, response: object) -> None:
        self._response = response

    def start(self, *_: object) -> Callable[[], object]:
        return lambda: self._response

    start_stream = start


class ScriptedChannel:
    """Returns one response after the other, and records the requests."""

    endpoints = "127.0.0.1:1"

    def __init__(self, *responses: object) -> None:
        self._responses = list(responses)
        self.requests: list[Any] = []

    def call(self, method: object, request: Any, **_: object) -> object:
        self.requests.append(request)
        return self._responses.pop(0)

    def start(self, method: object, request: Any, *_: object) -> Callable[[], object]:
        response = self.call(method, request)
        return lambda: response

    start_stream = start


def column_response(*results: tuple[str, int, int]) -> v1.PullColumnsResponse:
    """Each result is (pull status, number of rows, next offset). The rows end at the next offset."""
    queues = [
        v1.QueuePulled(pull_status=status, row_count=rows, next_offset=next_offset, max_offset=10)
        for status, rows, next_offset in results
    ]
    offsets = [at for _, rows, next_offset in results for at in range(next_offset - rows, next_offset)]
    schema = columns.select(columns.PULL_SCHEMA, ["queueOffset"])
    batch = pa.record_batch({"queueOffset": pa.array(offsets, pa.int64())}, schema=schema)
    return v1.PullColumnsResponse(queues=queues, arrow_ipc=columns.write_stream(schema, [batch]) if offsets else b"")


def standard_response(
    code: v2.Code, status: str, offsets: Iterable[int], next_offset: int
) -> list[messaging.PullMessageResponse]:
    """The messages have these offsets and no other field."""
    messages = [v2.Message(system_properties=v2.SystemProperties(queue_offset=offset)) for offset in offsets]
    return [
        messaging.PullMessageResponse(status=v2.Status(code=code, message=status)),
        *(messaging.PullMessageResponse(message=message) for message in messages),
        messaging.PullMessageResponse(next_offset=next_offset),
    ]
