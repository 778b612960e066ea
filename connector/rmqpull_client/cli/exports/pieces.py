"""Writes pieces of queues to files, in this process or in several."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rmqpull_client.cli.durable_files import UNFINISHED, keep_file
from rmqpull_client.cli.exports.plan import Piece, Plan
from rmqpull_client.cli.exports.processes import prepare_process
from rmqpull_client.cli.message_lines import make_json_rows
from rmqpull_client.cli.output import Refused
from rmqpull_client.connection import Connection
from rmqpull_client.loss import Loss
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.choice import connect
from rmqpull_proto.columns import add_place, select_pulled
from rmqpull_proto.names import TOOLS_GROUP

GROUP_ROWS = 64_000
"""The rows of a row group in Parquet, at least, unless a file has fewer."""
GROUP_BYTES = 64 << 20
"""A row group ends with the batch that reaches this size."""
_REPEATED = (
    *("topic", "brokerName", "queueId", "tags", "bornHost", "storeHost", "reconsumeTimes", "messageGroup"),
    *("bodyEncoding", "properties.key_value.key", "systemProperties.key_value.key"),
)
"""The columns whose values repeat, by their paths in Parquet. A dictionary of other values only takes time."""
_NEVER_COMPARED = frozenset(("body", "keys", "properties", "systemProperties"))
"""The columns of which a file keeps no least and greatest value, since no query asks for a range of them."""


class Written(NamedTuple):
    """What became of a piece: its offsets, the messages in its file, and a sentence about each range that was lost."""

    offset_count: int
    message_count: int
    losses: tuple[str, ...]


class _Writer(Protocol):
    def write(self, queue: MessageQueue, batch: pa.RecordBatch) -> None: ...
    def finish(self) -> None: ...


class _ParquetWriter:
    """Joins batches to row groups."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._names = schema.names
        self._schema = add_place(("", "", 0), pa.RecordBatch.from_pylist([], schema=schema)).schema
        compared = [name for name in self._schema.names if name not in _NEVER_COMPARED]
        self._writer = pq.ParquetWriter(file, self._schema, use_dictionary=_REPEATED, write_statistics=compared)
        self._waiting: list[pa.RecordBatch] = []

    def write(self, queue: MessageQueue, batch: pa.RecordBatch) -> None:
        self._waiting.append(add_place(queue, batch.select(self._names)))
        rows = sum(each.num_rows for each in self._waiting)
        if rows >= GROUP_ROWS or sum(each.nbytes for each in self._waiting) >= GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting = []

    def finish(self) -> None:
        self._write_group()
        self._writer.close()


class _LineWriter:
    """Writes a line of JSON for each message."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, queue: MessageQueue, batch: pa.RecordBatch) -> None:
        place = dict(zip(("topic", "brokerName", "queueId"), queue, strict=True))
        lines = (
            json.dumps({**place, **row}, ensure_ascii=False, separators=(",", ":")) for row in make_json_rows(batch)
        )
        self._file.write("".join(f"{line}\n" for line in lines).encode())

    def finish(self) -> None:
        """There is nothing to finish."""


def export_piece(connection: Connection, plan: Plan, piece: Piece, folder: Path) -> Written:
    """Writes the file of a piece. Raises RmqpullError and OSError; then there is no file of its name."""
    path, count, losses = folder / piece.file_name, 0, list[Loss]()
    with open(path.with_name(path.name + UNFINISHED), "wb") as file:
        schema = select_pulled(plan.columns)
        writer: _Writer = _ParquetWriter(file, schema) if plan.format == "parquet" else _LineWriter(file)
        reading = connect(connection).read(
            TOOLS_GROUP, [piece.range], schema.names, message_filter=plan.message_filter, on_loss=losses.append
        )
        for step in reading:
            for queue, batches in step:
                for batch in batches:
                    writer.write(queue, batch)
                    count += batch.num_rows
        writer.finish()
        keep_file(file, path)
    return Written(piece.range.size, count, tuple(loss.text for loss in losses))


def export_pieces(
    connection: Connection, plan: Plan, pieces: Sequence[Piece], folder: Path, process_count: int
) -> Iterator[Written]:
    """Writes the files of pieces, several at a time, and yields each that is complete.

    Raises what :func:`export_piece` raises, once the pieces in progress have ended, and Refused when a process was
    killed.
    """
    process_count = min(process_count, len(pieces))
    if process_count <= 1:
        yield from (export_piece(connection, plan, piece, folder) for piece in pieces)
        return
    # Not forked: a client does not survive that.
    pool = ProcessPoolExecutor(process_count, get_context("spawn"), prepare_process)
    try:
        waiting, running = iter(pieces), set[Future[Written]]()
        while True:
            for piece in waiting:
                running.add(pool.submit(export_piece, connection, plan, piece, folder))
                if len(running) >= 2 * process_count:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except BrokenProcessPool:
        raise Refused("a process of the export was killed; run the command again to continue") from None
    finally:
        pool.shutdown(cancel_futures=True)
