"""Messages that are refused, and floods of small ones."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from itertools import count, cycle

from bench.hostile.attack import ATTACKED, QUEUES, Attack, Target
from bench.hostile.lines import flood, make_request, prepare
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.sending_headers import SendMessageRequestHeaderV2

_TINY = 20_000


def make_send(
    body: bytes, properties: str = "", *, queue_id: int = 0, is_batch: bool = False, sys_flag: int = 0
) -> bytes:
    """Returns a send. A half message has ``sys_flag`` 4."""
    header = SendMessageRequestHeaderV2(
        topic=ATTACKED,
        queue_id=queue_id,
        producer_group="attacking",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        sys_flag=sys_flag,
        born_timestamp=int(time.time() * 1000),
        flag=0,
        properties=properties,
        batch=is_batch,
    )
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    return make_request(code, header.to_fields(), body)


def make_batch(messages: int, body: bytes, properties: bytes = b"a\15\2") -> bytes:
    """Returns the body of a batch of equal messages."""
    size = 22 + len(body) + len(properties)
    one = struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(properties)) + properties
    return one * messages


def fill(target: Target, messages: int, body_bytes: int = 20) -> None:
    """Sends messages to all queues, before an attack begins."""
    batch = make_batch(500, b"x" * body_bytes)
    requests = (make_send(batch, queue_id=n % QUEUES, is_batch=True) for n in range(messages // 500))
    prepare(target.remoting, requests, 4)


def too_large(target: Target) -> Iterator[None]:
    """Sends bodies above the limit."""
    frame = make_send(bytes(4_300_000))
    return flood(target.remoting, (frame for _ in count()), lines=2, window=1)


def bad_properties(target: Target) -> Iterator[None]:
    """Sends properties that are not pairs, too many, too long, or not UTF-8."""
    texts = ["\1\2" * 10_000, "x" * 32_000, "a\1" * 5_000, "é\1\2" * 9_000]
    texts += ["DELAY\1x\2", "TIMER_DELAY_MS\1-9\2", "\2\2\2"]
    sends = [make_send(b"x", text) for text in texts]
    return flood(target.remoting, cycle(sends))


def bad_batches(target: Target) -> Iterator[None]:
    """Sends batches that end too early, or name wrong sizes."""
    whole = make_batch(100, b"x" * 10)
    bodies = [whole[:-1], whole[:17], b"\xff" * 400, whole + bytes(3), struct.pack(">i", -5) + whole, bytes(40_000)]
    bodies += [bytes(number) + whole for number in range(1, 8)]
    return flood(target.remoting, cycle([make_send(body, is_batch=True) for body in bodies]))


def tiny_messages(target: Target) -> Iterator[None]:
    """Sends the largest batches of the smallest messages."""
    frames = [make_send(make_batch(_TINY, b""), queue_id=queue, is_batch=True) for queue in range(QUEUES)]
    return flood(target.remoting, cycle(frames), lines=2, window=1)


def single_sends(target: Target) -> Iterator[None]:
    """Sends small messages."""
    frames = [make_send(b"x" * 20, queue_id=queue) for queue in range(QUEUES)]
    return flood(target.remoting, cycle(frames))


def half_messages(target: Target) -> Iterator[None]:
    """Sends half messages that nobody commits or rolls back."""
    frame = make_send(b"x", "TRAN_MSG\1true\2PGROUP\1attacking\2", sys_flag=4)
    return flood(target.remoting, (frame for _ in count()))


def delayed_messages(target: Target) -> Iterator[None]:
    """Sends messages that are delivered in an hour."""
    later = int(time.time() * 1000) + 3_600_000
    sends = (make_send(b"x", f"TIMER_DELIVER_MS\1{later + number}\2") for number in count())
    return flood(target.remoting, sends)


_ONE = "one request in turn"
SENDING = (
    Attack("too-large", "bodies of 4.3 MB", "size of a message", too_large),
    Attack("bad-properties", "properties that cannot be read", "each is checked", bad_properties),
    Attack("bad-batches", "batches that cannot be read", "each is checked", bad_batches),
    Attack("tiny-messages", f"batches of {_TINY:,} empty messages", "messages of a batch", tiny_messages),
    Attack("sends", "small messages in a loop", _ONE, single_sends),
    Attack("half-messages", "half messages that nobody ends", "half messages that wait", half_messages),
    Attack("delayed-messages", "messages with a delay of an hour", "delayed messages that wait", delayed_messages),
)
