"""How producers send to ``rmqpull-broker``: single messages over the standard protocol, and batches in columns."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS, MESSAGING
from soak.ledger import Attempt, Ledger
from soak.plan import Setting
from soak.rpc import Calls
from soak.servers import Workload

SEND_TIMEOUT_S = 5.0
ROWS_PER_PUBLISH_MAX = 200
ROW_PAUSE_S, PUBLISH_PAUSE_S = 0.05, 1.0
_PACKED_ONE_IN = 5


def make_workloads(calls: Calls, setting: Setting) -> list[Workload]:
    """Returns the producers of a round."""
    send = partial(send_rows, calls)
    workloads = [
        Workload(name, send, 4, ROW_PAUSE_S) for name in (("a", "b") if setting.has_columns else ("a", "b", "c"))
    ]
    if setting.has_columns:
        workloads.append(Workload("columns", partial(publish, calls), ROWS_PER_PUBLISH_MAX, PUBLISH_PAUSE_S))
    return workloads


def send_rows(
    calls: Calls, ledger: Ledger, topic: str, messages: Sequence[tuple[Attempt, bytes]], dice: random.Random
) -> None:
    """Sends a SendMessage with some compressed bodies. Raises NotAnswered."""
    request = messaging.SendMessageRequest()
    for attempt, body in messages:
        is_packed = dice.randrange(_PACKED_ONE_IN) == 0
        message = request.messages.add(
            topic=v2.Resource(name=topic),
            body=gzip.compress(body, 1) if is_packed else body,
            user_properties={"price": str(attempt.price)},
        )
        message.system_properties.message_id = attempt.msg_id
        message.system_properties.tag = attempt.tag
        message.system_properties.keys.append(attempt.key)
        message.system_properties.message_type = v2.MessageType.NORMAL
        message.system_properties.body_encoding = v2.Encoding.GZIP if is_packed else v2.Encoding.IDENTITY
    answer = calls(MESSAGING.methods["SendMessage"], request, SEND_TIMEOUT_S)
    for (attempt, _), entry in zip(messages, answer.entries, strict=True):
        ledger.acknowledge(attempt, (entry.offset,))


def publish(
    calls: Calls, ledger: Ledger, topic: str, messages: Sequence[tuple[Attempt, bytes]], dice: random.Random
) -> None:
    """Sends a PublishColumns, whose response has the ranges of the rows. Raises NotAnswered."""
    attempts = [attempt for attempt, _ in messages]
    packed = [dice.randrange(_PACKED_ONE_IN) == 0 for _ in messages]
    encodings = columns.BODY_ENCODINGS
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(
                [gzip.compress(m[1], 1) if p else m[1] for m, p in zip(messages, packed, strict=True)], pa.binary()
            ),
            pa.array([attempt.tag for attempt in attempts]),
            pa.array([[attempt.key] for attempt in attempts], columns.KEYS),
            pa.array([[("price", str(attempt.price))] for attempt in attempts], columns.PROPERTIES),
            pa.array([attempt.msg_id for attempt in attempts]),
            pa.array([encodings["GZIP" if is_packed else "IDENTITY"] for is_packed in packed], pa.int32()),
        ],
        ["body", "tags", "keys", "properties", "msgId", "bodyEncoding"],
    )
    request = v1.PublishColumnsRequest(topic=topic, arrow_ipc=columns.write_stream(batch.schema, [batch]))
    answer = calls(COLUMNS.methods["PublishColumns"], request, SEND_TIMEOUT_S)
    # Ranges have the queues and offsets of all rows together, but not those of each row.
    offsets = {at for part in answer.ranges for at in range(part.first_offset, part.first_offset + part.row_count)}
    queues = {(part.queue.broker_name, part.queue.queue_id) for part in answer.ranges}
    for attempt in attempts:
        ledger.acknowledge(attempt, offsets, queues)
