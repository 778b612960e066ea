"""An Arrow Flight server with prepared batches: the fastest that a transport for Arrow can be.

A ticket is the JSON of [columns, rows, bytes of a body].
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from typing import Any

import pyarrow.flight as flight

from bench.ready_batches import row_batch, rows_of_a_batch


class ReadyServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow brings no types
    """Responds to DoGet with the same batch again and again."""

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Returns as many rows as the ticket says."""
        names, rows, body_bytes = json.loads(ticket.ticket)
        share = rows_of_a_batch(body_bytes)
        ready = row_batch(tuple(names), share, body_bytes)
        batches = (ready.slice(0, min(share, rows - begin)) for begin in range(0, rows, share))
        return flight.GeneratorStream(ready.schema, batches)


def get(endpoints: str, names: Sequence[str], rows: int, body_bytes: int) -> int:
    """Reads a stream and returns its number of rows."""
    ticket = flight.Ticket(json.dumps([list(names), rows, body_bytes]).encode())
    with flight.connect(f"grpc://{endpoints}") as client:
        return sum(chunk.data.num_rows for chunk in client.do_get(ticket))


def main() -> None:
    """Serves until SIGTERM."""
    server = ReadyServer("grpc://127.0.0.1:0")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print(f"ready endpoints=127.0.0.1:{server.port} pid={os.getpid()}", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
