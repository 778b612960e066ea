"""PullColumns: reads many queues into one Arrow IPC stream, and parks when none of them has messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import pyarrow as pa

from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.filters.message_filter import EVERYTHING, MessageFilter
from rmqpull_broker.core.messages.columns import concat_batches
from rmqpull_broker.core.messages.pulled_columns import select_pulled_columns
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.checks import check_pull
from rmqpull_broker.core.pulling.column_pull import ColumnPull, ColumnRead, are_at_end, begin_column_pull, may_park
from rmqpull_broker.core.pulling.message_pull import Pulled
from rmqpull_broker.core.pulling.request import Compensation, PullContext, PullRequest, PullVerdict
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import check_group_name
from rmqpull_broker.server.grpc.wire.codec import column_queue_from, expression_type_from
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.limits import PULL_BYTES_MAX, PULL_ROWS_MAX
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto import columns
from rmqpull_proto.columns_response import ColumnsResponse
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc

QUEUES_AT_ONCE = 256
"""Queues of a pull that are read in one turn of the event loop."""
SMALL_ROWS = 4_096
"""Neighbouring batches with fewer rows are joined until they have so many. Each batch costs a reader 0.2 to 0.3 ms."""


async def pull_columns(service: Service, request: rpc.PullColumnsRequest, caller: Caller) -> ColumnsResponse:
    """PullColumns: when no queue has a message, the pull parks once and then runs once more."""
    if not request.queues:
        raise BadRequest("a pull needs at least one queue")
    try:
        schema = columns.select_pulled(request.columns)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    timeout_ms = request.long_polling_timeout_ms
    service.check_polling_time(timeout_ms)
    pull = _Pull(service, request, caller)
    await pull.read_queues()
    await pull.check()
    await pull.run(is_first_run=True)
    suspends = request.suspend if request.HasField("suspend") else timeout_ms > 0
    if suspends and pull.may_park and await pull.park(timeout_ms):
        await pull.run(is_first_run=False)
    response, batches = rpc.PullColumnsResponse(status=OK), list[pa.RecordBatch]()
    for asked, piece in zip(pull.pieces, pull.results, strict=True):
        if response.queues:
            await service.slices.pause()
        for wanted, result in zip(asked, piece, strict=True):
            service.metrics.count_pull(wanted.queue.topic, result)
        response.queues.extend(map(_result_to, piece))
        batches += _join([select_pulled_columns(batch, schema.names) for result in piece for batch in result.batches])
    return ColumnsResponse(response, schema, batches)


def _join(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Joins small batches: copying a thousand rows takes microseconds."""
    joined, small, small_rows = list[pa.RecordBatch](), list[pa.RecordBatch](), 0
    for batch in batches:
        is_small = batch.num_rows < SMALL_ROWS
        if is_small:
            small.append(batch)
            small_rows += batch.num_rows
        if small and (not is_small or small_rows >= SMALL_ROWS):
            joined.append(concat_batches(small))
            small, small_rows = [], 0
        if not is_small:
            joined.append(batch)
    return joined + ([concat_batches(small)] if small else [])


class _Pull:
    """A pull of many queues, one piece of them in each turn of the event loop, so that others do not wait for all.

    So its queues are not read at the same moment. All pieces are checked before the first one has an effect; only if a
    permission changes meanwhile can a pull be refused after a part of it has set its offsets.
    """

    def __init__(self, service: Service, request: rpc.PullColumnsRequest, caller: Caller) -> None:
        check_group_name(request.group)
        if request.max_rows < 0 or request.max_bytes < 0:
            raise BadRequest(
                f"max_rows is {request.max_rows} and max_bytes is {request.max_bytes}: they must not be negative"
            )
        self._service = service
        self._request = request
        self._caller = caller
        self._began_ms = service.clock.passing_ms()
        self.pieces: list[list[ColumnPull]] = []
        self.results: list[list[Pulled]] = []
        """The results of each piece in the last run."""
        self.may_park = True
        """Whether all queues were at their ends."""
        self._filter: MessageFilter = EVERYTHING
        self._shared = PullRequest(
            request.group,
            column_queue_from(request.queues[0].queue),
            subscription=request.filter_expression.expression,
            expression_type=expression_type_from(request.filter_expression),
            remote_address=caller.address,
            channel_id=caller.client_id,
            is_strict=True,
        )

    async def read_queues(self) -> None:
        """Reads the queues of the request. Raises BadRequest."""
        queues = self._request.queues
        for first in range(0, len(queues), QUEUES_AT_ONCE):
            if first:
                await self._service.slices.pause()
            self.pieces.append([_pull_from(queue) for queue in queues[first : first + QUEUES_AT_ONCE]])

    async def check(self) -> None:
        """Makes the checks before those of the queues and, if there are several pieces, also those of the queues.

        A group that they create stays in any case. Raises the refusal of a check that fails.
        """
        consumers, now_ms, context = self._read_context()
        verdict = await self._service.execute(
            lambda draft: check_pull(draft, consumers, self._shared, now_ms, context, is_of_group_alone=True)
        )
        if verdict.refusal is not None:
            raise verdict.refusal
        for piece in self.pieces if len(self.pieces) > 1 else ():
            await self._service.slices.pause()
            self._service.try_command(self._make_command(piece, is_first_run=True))

    def _read_context(self) -> tuple[ConsumerRegistry, int, PullContext]:
        service = self._service
        return service.clients.consumers, service.clock_ms(), PullContext(service.endpoints[0])

    async def run(self, *, is_first_run: bool) -> None:
        """Runs the pull once. Raises the refusal of a check that fails."""
        request = self._request
        rows_max = min(request.max_rows or PULL_ROWS_MAX, PULL_ROWS_MAX)
        bytes_max = min(request.max_bytes or PULL_BYTES_MAX, PULL_BYTES_MAX)
        read: ColumnRead | None = None
        for number, piece in enumerate(self.pieces):
            if number:
                await self._service.slices.pause()
            verdicts = await self._begin(piece, is_first_run=is_first_run)
            if read is None and any(verdicts):  # without verdicts the filter is not known, and nothing is read
                read = ColumnRead(self._service.state, self._filter, rows_max, bytes_max)
            unread = read or ColumnRead(self._service.state, EVERYTHING, rows_max, bytes_max)
            results = unread.pull(piece, verdicts)
            self.may_park = self.may_park and may_park(results)
            self.results[number : number + 1] = [results]

    def _make_command(
        self, piece: list[ColumnPull], *, is_first_run: bool
    ) -> Callable[[Draft], list[PullVerdict | None]]:
        consumers, now_ms, context = self._read_context()
        return lambda draft: begin_column_pull(
            draft, consumers, self._shared, piece, now_ms, context, is_first_run=is_first_run
        )

    async def _begin(self, piece: list[ColumnPull], *, is_first_run: bool) -> list[PullVerdict | None]:
        verdicts = await self._service.execute(self._make_command(piece, is_first_run=is_first_run))
        applied: Compensation | None = None
        for verdict in verdicts:
            if verdict is not None:
                self._filter = verdict.message_filter  # the same for each queue that exists; others are not read
                if verdict.compensation is not None and verdict.compensation is not applied:
                    applied = verdict.compensation
                    applied.apply(self._service.clients.consumers)
        return verdicts

    async def park(self, timeout_ms: int) -> bool:
        """Parks the pull if nothing has arrived since it ran. Returns whether it must run again."""
        service, group = self._service, self._request.group
        if (remaining_ms := self._caller.remaining_ms) is not None:
            # Leaves time for the second run before the deadline, which takes as long as the first one.
            took_ms = service.clock.passing_ms() - self._began_ms
            remaining_ms -= 2 * took_ms
        caller = replace(self._caller, remaining_ms=remaining_ms)
        if not are_at_end(service.state, group, self.pieces[0]):
            return True
        queues = [pull.queue for pull in self.pieces[0]]
        # With the suspend bit a timeout of 0 lasts until the next check (rules 6.1).
        on_grid = timeout_ms <= 0
        further = self._list_further_queues() if len(self.pieces) > 1 else None
        return await service.park(
            queues, self._filter, timeout_ms, caller, group=group, on_grid=on_grid, further=further
        )

    async def _list_further_queues(self) -> AsyncGenerator[list[MessageQueue] | None, None]:
        """Yields the queues of the next piece; None if one of them has changed since the pull ran."""
        for piece in self.pieces[1:]:
            await self._service.slices.pause()
            waits = are_at_end(self._service.state, self._request.group, piece)
            yield [pull.queue for pull in piece] if waits else None


def _pull_from(pull: rpc.QueuePull) -> ColumnPull:
    return ColumnPull(
        column_queue_from(pull.queue),
        pull.offset,
        pull.until_offset if pull.HasField("until_offset") else None,
        pull.creation_id if pull.HasField("creation_id") else None,
        pull.commit_offset if pull.HasField("commit_offset") else None,
    )


def _result_to(result: Pulled) -> rpc.QueuePulled:
    return rpc.QueuePulled(
        pull_status=result.status.name,
        row_count=result.row_count,
        next_offset=result.next_offset,
        min_offset=result.bounds.min_offset,
        max_offset=result.bounds.max_offset,
    )
