"""Producers on threads. They send single messages over the standard protocol, and batches in columns."""

from __future__ import annotations

import gzip
import random
import threading
from collections.abc import Callable, Sequence

import pyarrow as pa

from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS, MESSAGING
from soak.ledger import Attempt, Ledger, body_of, digest_of
from soak.rpc import Calls, NotAnswered
from soak.schedule import PRICES, TAGS, Setting

SEND_TIMEOUT_S = 5.0
END_SECONDS_MAX = 30.0
ROWS_PER_PUBLISH_MAX = 200
ROW_PAUSE_S, PUBLISH_PAUSE_S = 0.05, 1.0
RETRIES_MAX = 3
_LARGE_ONE_IN = 50
_PACKED_ONE_IN = 5
_SMALL_BYTES = 120

Send = Callable[[Calls, Ledger, str, Sequence[tuple[Attempt, bytes]], random.Random], None]


class Producers:
    """Sends until it is stopped. Each retry is an attempt of its own."""

    def __init__(
        self, endpoints: str, setting: Setting, seed: str, ledger: Ledger, topics: Callable[[], Sequence[str]]
    ) -> None:
        self._calls = Calls(endpoints)
        self._setting = setting
        self._ledger = ledger
        self._topics = topics
        self._ended = threading.Event()
        works: list[tuple[str, Send, int, float]] = [
            (name, send_rows, 4, ROW_PAUSE_S) for name in (("a", "b") if setting.has_columns else ("a", "b", "c"))
        ]
        if setting.has_columns:
            works.append(("columns", publish, ROWS_PER_PUBLISH_MAX, PUBLISH_PAUSE_S))
        self._threads = [
            threading.Thread(target=self._produce, args=(*work, random.Random(f"{seed}/{work[0]}")), daemon=True)
            for work in works
        ]

    def start(self) -> None:
        """Starts the producers."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stops the producers. Returns when the last attempt has its response, or has failed."""
        self._ended.set()
        for thread in self._threads:
            thread.join(END_SECONDS_MAX)
        self._calls.close()

    def _produce(self, name: str, send: Send, count_max: int, pause_s: float, dice: random.Random) -> None:
        number = 0
        while not self._ended.wait(pause_s):
            topic = dice.choice(self._topics())
            sizes = [self._draw_size(dice) for _ in range(dice.randrange(1, count_max + 1))]
            for retry in range(RETRIES_MAX + 1):
                keys = [f"{name}-{number + index}-{retry}" for index in range(len(sizes))]
                messages = [self._message(topic, key, size, dice) for key, size in zip(keys, sizes, strict=True)]
                self._ledger.begin([attempt for attempt, _ in messages])
                try:
                    send(self._calls, self._ledger, topic, messages, dice)
                except NotAnswered:
                    if self._ended.wait(pause_s):
                        return
                else:
                    break
            number += len(sizes)

    def _draw_size(self, dice: random.Random) -> int:
        return self._setting.large_body_bytes if dice.randrange(_LARGE_ONE_IN) == 0 else _SMALL_BYTES

    def _message(self, topic: str, key: str, size: int, dice: random.Random) -> tuple[Attempt, bytes]:
        body = body_of(key, size)
        attempt = Attempt(key, topic, dice.choice(TAGS), dice.randrange(PRICES), digest_of(body), self._ledger.step)
        return attempt, body


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
    """Sends a PublishColumns; its response tells the ranges of the rows. Raises NotAnswered."""
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
    # Ranges tell the queues and offsets of all rows, but not those of each row.
    offsets = {at for part in answer.ranges for at in range(part.first_offset, part.first_offset + part.row_count)}
    queues = {(part.queue.broker_name, part.queue.queue_id) for part in answer.ranges}
    for attempt in attempts:
        ledger.acknowledge(attempt, offsets, queues)
