"""Threads that look at the queues of a broker as fast as they can, each by other calls.

A looker begins where its last look ended, so that it is always near the ends of the queues.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.commit_order import UNKNOWN, Look, make_look
from tests.harness.remoting_member import RemotingMember
from tests.harness.rpc_client import RpcClient
from tests.harness.waiting import WAIT_S, wait_until

BROKER, GROUP = "broker-a", "lookers"
PARKED_MS = 300
LOOKS_BETWEEN = 3
SUSPEND, SUBSCRIPTION = 2, 4
ROWS_BELOW_LIMIT = 10_000
"""A pull with fewer rows was not ended by a limit of the server."""
TAG = "commit-"
"""The tag of a row of commit 7 is ``commit-7``."""


class Queue(NamedTuple):
    topic: str
    queue_id: int


class SeenRows(NamedTuple):
    """The commits of the rows of one queue that a pull returned, from an offset on."""

    place: int
    offset: int
    numbers: npt.NDArray[np.int64]


def decode_tags(tags: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """Returns the number of the commit of each row; -1 without one."""
    numbers = pc.replace_substring(tags, TAG, "").cast(pa.int64())
    decoded: npt.NDArray[np.int64] = numbers.fill_null(-1).to_numpy()
    return decoded


class Looker:
    """What all lookers share: the clients, where the queues end, and what was seen."""

    def __init__(self, endpoints: str, remoting: str | None, queues: Sequence[Queue], opened: ExitStack) -> None:
        self.queues = queues
        self.looks = list[Look]()
        self.rows = list[SeenRows]()
        self.ends = [0] * len(queues)
        self.dice = random.Random(len(queues))
        self.client = RpcClient(endpoints, GROUP)
        opened.callback(self.client.channel.close)
        self.member = None if remoting is None else opened.enter_context(RemotingMember(remoting))

    def note(self, by: str, sent_ns: int, ends: dict[int, tuple[int, int]]) -> None:
        """Keeps a look whose response has just come: ``shown`` and ``until`` of queues, by their places."""
        self.looks.append(make_look(by, sent_ns, time.monotonic_ns(), ends, len(self.queues)))
        for place, (shown, _) in ends.items():
            self.ends[place] = max(self.ends[place], shown)

    def pick(self) -> int:
        """Returns the place of any queue."""
        return self.dice.randrange(len(self.queues))


def look_at_bounds(looker: Looker) -> None:
    """The bounds of all queues in one call, as planning asks for them."""
    topics = dict.fromkeys(queue.topic for queue in looker.queues)
    places = {queue: place for place, queue in enumerate(looker.queues)}
    request = v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=topic) for topic in topics])
    sent_ns = time.monotonic_ns()
    response = looker.client.call("QueryBounds", request)
    looker.note(
        "QueryBounds",
        sent_ns,
        {
            places[Queue(topic.topic, queue.queue_id)]: (queue.max_offset, queue.max_offset)
            for topic in response.topics
            for queue in topic.queues
        },
    )


def _pull_columns(looker: Looker, by: str, wait_ms: int) -> None:
    queues = [
        v1.QueuePull(queue=v1.Queue(topic=queue.topic, broker_name=BROKER, queue_id=queue.queue_id), offset=end)
        for queue, end in zip(looker.queues, looker.ends, strict=True)
    ]
    request = v1.PullColumnsRequest(
        group=GROUP, queues=queues, columns=["tags"], long_polling_timeout_ms=wait_ms, suspend=wait_ms > 0
    )
    sent_ns, begins = time.monotonic_ns(), list(looker.ends)
    response = looker.client.call("PullColumns", request)
    is_whole = sum(result.row_count for result in response.queues) < ROWS_BELOW_LIMIT
    ends = {
        place: (result.next_offset, result.next_offset if is_whole else result.max_offset)
        for place, result in enumerate(response.queues)
        if result.pull_status != v1.PullStatus.NOT_REACHED
    }
    looker.note(by, sent_ns, ends)
    numbers, at = decode_tags(read_tags(response)), 0
    for place, result in enumerate(response.queues):
        if result.row_count:
            looker.rows.append(SeenRows(place, begins[place], numbers[at : at + result.row_count]))
            at += result.row_count


def read_tags(response: v1.PullColumnsResponse) -> pa.ChunkedArray:
    """Returns the column ``tags`` of a pull."""
    batches = list(read_stream(response.arrow_ipc, PULLABLE_SCHEMA)) if response.arrow_ipc else []
    return pa.chunked_array([batch.column("tags") for batch in batches], pa.string())


def pull_columns(looker: Looker) -> None:
    """The rows of all queues in columns."""
    _pull_columns(looker, "PullColumns", 0)


def park_columns(looker: Looker) -> None:
    """The same, and waits for rows."""
    _pull_columns(looker, "parked PullColumns", PARKED_MS)


def _name_queue(queue: Queue) -> v2.MessageQueue:
    return v2.MessageQueue(topic=v2.Resource(name=queue.topic), id=queue.queue_id, broker=v2.Broker(name=BROKER))


def query_offset(looker: Looker) -> None:
    """The end of a queue over gRPC v2."""
    place = looker.pick()
    request = service.QueryOffsetRequest(
        message_queue=_name_queue(looker.queues[place]), query_offset_policy=v2.QueryOffsetPolicy.END
    )
    sent_ns = time.monotonic_ns()
    end = looker.client.call("QueryOffset", request).offset
    looker.note("QueryOffset", sent_ns, {place: (end, end)})


def _pull_message(looker: Looker, by: str, wait_ms: int) -> None:
    query_offset(looker)
    place = looker.pick()
    begin = looker.ends[place]
    sent_ns = time.monotonic_ns()
    pulled = looker.client.pull(_name_queue(looker.queues[place]), begin, group=GROUP, wait_ms=wait_ms)
    if pulled.messages:
        end = pulled.messages[-1].system_properties.queue_offset + 1
        looker.note(by, sent_ns, {place: (end, UNKNOWN)})
        tags = pa.array([message.system_properties.tag or None for message in pulled.messages], pa.string())
        looker.rows.append(SeenRows(place, begin, decode_tags(tags)))
    else:
        looker.note(by, sent_ns, {place: (begin, begin)})


def pull_message(looker: Looker) -> None:
    """Up to 32 messages of a queue over gRPC v2."""
    _pull_message(looker, "PullMessage", 0)


def park_message(looker: Looker) -> None:
    """The same, and waits for a message."""
    _pull_message(looker, "parked PullMessage", PARKED_MS)


def get_max_offset(looker: Looker) -> None:
    """The end of a queue over the remoting protocol."""
    assert looker.member is not None
    place = looker.pick()
    queue = looker.queues[place]
    sent_ns = time.monotonic_ns()
    response = looker.member.call(RequestCode.GET_MAX_OFFSET, {"topic": queue.topic, "queueId": queue.queue_id})
    assert response.code == ResponseCode.SUCCESS, response.remark
    end = int(response.fields["offset"])
    looker.note("GET_MAX_OFFSET", sent_ns, {place: (end, end)})


def _pull_records(looker: Looker, by: str, sys_flag: int) -> None:
    assert looker.member is not None
    get_max_offset(looker)
    place = looker.pick()
    queue, begin = looker.queues[place], looker.ends[place]
    fields = {
        "consumerGroup": GROUP,
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "queueOffset": begin,
        "maxMsgNums": 32,
        "sysFlag": sys_flag | SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": PARKED_MS,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    sent_ns = time.monotonic_ns()
    response = looker.member.call(RequestCode.PULL_MESSAGE, fields)
    assert response.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND), response.remark
    shown = int(response.fields["nextBeginOffset"])
    looker.note(by, sent_ns, {place: (shown, max(shown, int(response.fields["maxOffset"])))})


def pull_records(looker: Looker) -> None:
    """Up to 32 messages of a queue over the remoting protocol."""
    _pull_records(looker, "PULL_MESSAGE", 0)


def park_records(looker: Looker) -> None:
    """The same, and waits for a message."""
    _pull_records(looker, "parked PULL_MESSAGE", SUSPEND)


LOOKERS: Sequence[Callable[[Looker], None]] = (
    look_at_bounds,
    pull_columns,
    park_columns,
    pull_message,
    park_message,
    pull_records,
    park_records,
)


class Looks:
    """All lookers of a broker. :meth:`stop` returns what they have seen."""

    def __init__(self, lookers: Sequence[Looker], threads: Sequence[threading.Thread], ends: threading.Event) -> None:
        self._lookers, self._threads, self._ends = lookers, threads, ends
        self.errors = list[str]()

    def await_looks(self, more: int = LOOKS_BETWEEN) -> None:
        """Returns when each looker has made ``more`` looks. Fails when one of them has ended by an error."""
        wanted = [len(looker.looks) + more for looker in self._lookers]
        wait_until(
            lambda: (
                bool(self.errors)
                or all(len(looker.looks) >= count for looker, count in zip(self._lookers, wanted, strict=True))
            ),
            f"{more} more looks of each kind",
        )
        assert self.errors == []

    def stop(self) -> tuple[list[Look], list[SeenRows]]:
        """Ends the lookers after their present calls."""
        self._ends.set()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), f"{thread.name} did not end"
        looks = [look for looker in self._lookers for look in looker.looks]
        return looks, [rows for looker in self._lookers for rows in looker.rows]


@contextmanager
def run_lookers(
    endpoints: str,
    remoting: str | None,
    queues: Sequence[Queue],
    kinds: Sequence[Callable[[Looker], None]] = LOOKERS,
) -> Iterator[Looks]:
    """Starts a thread of each kind. An error ends its thread, and is one of ``errors``."""
    ends = threading.Event()
    with ExitStack() as opened:
        lookers = [Looker(endpoints, remoting, queues, opened) for _ in kinds]
        looks = Looks(lookers, [], ends)

        def run(look: Callable[[Looker], None], looker: Looker) -> None:
            try:
                while not ends.is_set():
                    look(looker)
            except Exception as error:  # noqa: BLE001 (the test reports it)
                if not ends.is_set():
                    looks.errors.append(f"{look.__name__}: {error!r}")

        threads = [
            threading.Thread(target=run, args=pair, name=pair[0].__name__, daemon=True)
            for pair in zip(kinds, lookers, strict=True)
        ]
        looks._threads = threads
        for thread in threads:
            thread.start()
        try:
            yield looks
        finally:
            ends.set()
            for thread in threads:
                thread.join(WAIT_S)
