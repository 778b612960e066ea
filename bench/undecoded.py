"""Reads a topic of an Apache broker as fast as the broker can send it, and looks at nothing but sizes.

No consumer is faster: this is the broker's own limit, and that of the sockets. It is a program, so that several
processes can share the queues.

usage: python -m bench.undecoded BROKER_ADDRESS TOPIC MESSAGES_PER_PULL PULLS_IN_FLIGHT QUEUE:UNTIL_OFFSET...
It prints its seconds, its processor time and the number of messages as JSON.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.comparison import Mismeasured
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand, encode_command
from rmqpull_proto.remoting.frames import HEADER_BYTES_MAX, split_frames

BUFFER_BYTES = 4 << 20
SILENCE_S_MAX = 30.0
_SUBSCRIPTION_BIT = 4
_OFFSET_DIGITS = 19
_OFFSET_MARK = "9" * _OFFSET_DIGITS
_MARK = struct.Struct(">I")
# 5.x responds to pulls with a JSON header, even if theirs is binary.
_FOUND = re.compile(rb'\{"code":0,.*"nextBeginOffset":"(\d+)".*"opaque":(\d+),')


@dataclass
class Queue:
    """The pulls of one queue.

    All ask for the same number of messages, except one that asks for the rest after a short response.
    """

    topic: str
    queue_id: int
    until_offset: int
    per_pull: int
    opaque: int
    next_offset: int = 0
    frame: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.frame = make_pull(self.topic, self.queue_id, self.per_pull, self.opaque)

    def take_pulls(self, count: int) -> Iterator[bytes]:
        """Yields the frames of the next pulls, at most ``count``."""
        for _ in range(count):
            if self.next_offset >= self.until_offset:
                return
            yield _set_offset(self.frame, self.next_offset)
            self.next_offset += self.per_pull

    def take_next(self, returned_until: int) -> Iterator[bytes]:
        """Yields the frame of the pull that follows a response, which has the messages up to an offset.

        A broker returns fewer messages than were asked for where one of its files ends, for example. Then it is asked
        for the rest.
        """
        rest = min(-returned_until % self.per_pull, self.until_offset - returned_until)
        if rest > 0:
            yield _set_offset(make_pull(self.topic, self.queue_id, rest, self.opaque), returned_until)
        else:
            yield from self.take_pulls(1)


def _set_offset(frame: bytes, offset: int) -> bytes:
    return frame.replace(_OFFSET_MARK.encode(), b"%0*d" % (_OFFSET_DIGITS, offset))


def make_pull(topic: str, queue_id: int, per_pull: int, opaque: int) -> bytes:
    """Returns the frame of a pull, with a mark in the place of the offset."""
    fields = {
        "consumerGroup": "bench-undecoded",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": _OFFSET_MARK,
        "maxMsgNums": str(per_pull),
        "sysFlag": str(_SUBSCRIPTION_BIT),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return encode_command(RemotingCommand(RequestCode.PULL_MESSAGE, fields, opaque=opaque))


class Counter:
    """Counts the messages of responses. All messages must have the same size, as those of a benchmark have."""

    def __init__(self) -> None:
        self.messages = 0
        self._message_bytes = 0

    def add(self, buffer: memoryview, start: int, end: int) -> tuple[int, int]:
        """Counts the response ``buffer[start:end]``, a frame without its length.

        Returns its opaque, and the offset after its messages.
        """
        (mark,) = _MARK.unpack_from(buffer, start)
        body = start + 4 + (mark & HEADER_BYTES_MAX)
        found = _FOUND.match(buffer, start + 4, body)
        if found is None:
            raise Mismeasured(f"the broker refuses a pull: {bytes(buffer[start + 4 : body])!r}")
        if not self._message_bytes:
            (self._message_bytes,) = _MARK.unpack_from(buffer, body)
        count, rest = divmod(end - body, self._message_bytes)
        if rest:
            raise Mismeasured(f"a response has {end - body} bytes, but messages have {self._message_bytes}")
        self.messages += count
        return int(found[2]), int(found[1])


def count(address: str, queues: Sequence[Queue], in_flight: int) -> int:
    """Pulls all messages of the queues, ``in_flight`` pulls of each at a time. Returns the number of messages."""
    counter = Counter()
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), SILENCE_S_MAX) as connection:
        pulls = [pull for queue in queues for pull in queue.take_pulls(in_flight)]
        waiting = len(pulls)
        connection.sendall(b"".join(pulls))
        buffer = memoryview(bytearray(BUFFER_BYTES))
        filled = 0
        while waiting:
            received = connection.recv_into(buffer[filled:])
            if not received:
                raise Mismeasured("the broker closed the connection")
            filled += received
            frames = split_frames(buffer, 0, filled)
            responses = [counter.add(buffer, start, end) for start, end in frames]
            pulls = [pull for opaque, until in responses for pull in queues[opaque].take_next(until)]
            waiting += len(pulls) - len(frames)
            connection.sendall(b"".join(pulls))
            if frames:
                rest = frames[-1][1]
                buffer[: filled - rest] = buffer[rest:filled]
                filled -= rest
    return counter.messages


def main() -> None:
    """Counts, and prints the figures."""
    address, topic, per_pull, in_flight, *ranges = sys.argv[1:]
    queues = []
    for number, text in enumerate(ranges):
        queue_id, until_offset = map(int, text.split(":"))
        queues.append(Queue(topic, queue_id, until_offset, int(per_pull), number))
    begun, begun_cpu_s = time.perf_counter(), time.process_time()
    messages = count(address, queues, int(in_flight))
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - begun_cpu_s
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "messages": messages}))


if __name__ == "__main__":
    main()
