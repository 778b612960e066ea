"""The healthy clients: Java's, whose sends are timed, and one that remembers what the broker has acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from bench.broker_load import calls, checked
from bench.broker_load import queue as queue_of
from bench.hostile.lines import PAUSE_S, Line, make_request
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.sending_headers import SendMessageRequestHeaderV2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS

WARM, HEALTHY, KEPT = "warm", "healthy", "kept"
"""The topics of both: those of Java's warm-up and of its timed sends, and the one whose messages are compared."""
_STOPPED_S_MAX = 10.0


class Keeper:
    """Sends numbered messages, one after the other, and keeps the numbers of those that were acknowledged."""

    def __init__(self, address: str) -> None:
        self.acknowledged: list[int] = []
        self._line = Line(address)

    def send(self, number: int) -> None:
        """Sends one message. It counts only if the broker says that it is stored."""
        header = SendMessageRequestHeaderV2(
            topic=KEPT,
            queue_id=0,
            producer_group="keeping",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
        )
        response = self._line.ask(make_request(RequestCode.SEND_MESSAGE_V2, header.to_fields(), b"%d" % number))
        if response is None:
            time.sleep(PAUSE_S)
        elif response.code == ResponseCode.SUCCESS:
            self.acknowledged.append(number)

    def close(self) -> None:
        """Closes the connection."""
        self._line.close()


@contextmanager
def keeping(address: str) -> Iterator[Keeper]:
    """Sends messages on another thread until the block ends, in which the broker may be killed."""
    keeper, ended = Keeper(address), threading.Event()

    def send() -> None:
        for number in count():
            if ended.is_set():
                return
            keeper.send(number)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield keeper
    finally:
        ended.set()
        sender.join(_STOPPED_S_MAX)
        keeper.close()


async def read_numbers(endpoints: str) -> set[int]:
    """Returns the numbers of all messages that the broker has in the topic of the keeper."""
    found: set[int] = set()
    offset = 0
    async with calls(endpoints) as call:
        while True:
            pull = v1.QueuePull(queue=queue_of(KEPT, 0), offset=offset)
            request = v1.PullColumnsRequest(group="reading", queues=[pull], columns=["body"])
            response = checked(await call(COLUMNS.methods["PullColumns"], request))
            if not response.queues[0].row_count:
                return found
            offset = response.queues[0].next_offset
            for batch in read_stream(response.arrow_ipc, PULLABLE_SCHEMA):
                found.update(int(body) for body in batch.column("body").to_pylist())
