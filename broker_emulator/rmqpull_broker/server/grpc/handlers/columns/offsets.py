"""CommitOffsets and ReportRowsLost: what queries store on the broker about their progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling import consumer_offsets
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import LostRange
from rmqpull_broker.server.grpc.wire.codec import column_queue_from
from rmqpull_broker.server.grpc.wire.status import OK, PREVIOUSLY_RESET
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc

E = TypeVar("E")
T = TypeVar("T")
R = TypeVar("R")


QUEUES_AT_ONCE = 4_096
"""Queues that are stored together. More are stored piece by piece, so that other calls have their turns."""


async def commit_offsets(
    service: Service, request: rpc.CommitOffsetsRequest, caller: Caller
) -> rpc.CommitOffsetsResponse:
    """CommitOffsets: sets a group's consumer offsets on many queues: all of them or none, if they fit into one piece.

    Responds once the offsets are stored. Those of queues with a pending reset are ignored, and the response says so.
    """
    response = rpc.CommitOffsetsResponse(status=OK)
    pieces = await _read_in_turns(
        service, request.offsets, lambda entry: (column_queue_from(entry.queue), entry.offset)
    )

    def set_piece(piece: list[tuple[MessageQueue, int]], draft: Draft) -> tuple[bool, list[int]]:
        previous = [draft.state.consumer_offsets.get((request.group, queue), -1) for queue, _ in piece]
        return consumer_offsets.set_offsets(draft, request.group, piece), previous

    for all_stored, previous in await _store(service, pieces, set_piece):
        if not all_stored:
            response.status.CopyFrom(PREVIOUSLY_RESET)
        response.previous_offsets.extend(previous)
    return response


async def report_rows_lost(
    service: Service, request: rpc.ReportRowsLostRequest, caller: Caller
) -> rpc.ReportRowsLostResponse:
    """ReportRowsLost: stores which rows a query's tasks could not read; its driver gets the report with QueryBounds.

    Responds once the report is stored. A repeated report counts once.
    """
    pieces = await _read_in_turns(
        service,
        request.ranges,
        lambda entry: LostRange(column_queue_from(entry.queue), entry.from_offset, entry.until_offset),
    )

    def report(piece: list[LostRange], draft: Draft) -> None:
        consumer_offsets.report_lost(draft, request.query_id, request.batch_id, piece)

    await _store(service, pieces, report)
    return rpc.ReportRowsLostResponse(status=OK)


async def _read_in_turns(service: Service, entries: Sequence[E], read: Callable[[E], T]) -> list[list[T]]:
    """Returns the results for all entries, in pieces: at least one, which may be empty."""
    pieces = []
    for first in range(0, max(len(entries), 1), QUEUES_AT_ONCE):
        if first:
            await service.slices.pause()
        pieces.append(list(map(read, entries[first : first + QUEUES_AT_ONCE])))
    return pieces


async def _store(service: Service, pieces: list[list[T]], store: Callable[[list[T], Draft], R]) -> list[R]:
    """Stores piece after piece. If there are several, all are checked before the first is stored."""
    for piece in pieces if len(pieces) > 1 else ():
        await service.slices.pause()
        service.try_command(partial(store, piece))
    return [await service.group_commit.execute(partial(store, piece)) for piece in pieces]
