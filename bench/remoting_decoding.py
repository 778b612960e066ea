"""What the decoding of stored messages costs: processor time per million messages, without a broker or a socket.

python -m bench.remoting_decoding
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import numpy as np
import pyarrow as pa

from rmqpull_broker.core.messages.columns import STORED_SCHEMA
from rmqpull_broker.core.messages.stored_records import encode_records
from rmqpull_proto.remoting.messages.batch_messages import encode_batch
from rmqpull_proto.remoting.messages.property_texts import encode_property_texts, make_unique_keys
from rmqpull_proto.remoting.messages.record_layout import Ints
from rmqpull_proto.remoting.messages.stored_columns import decode_columns
from rmqpull_proto.remoting.messages.stored_messages import locate_records

ROWS = 16_000
"""About as many as a receive buffer has."""
PULL_ROWS = 32
_MAP = pa.map_(pa.string(), pa.string())


def make_rows(body_bytes: int) -> pa.RecordBatch:
    """Makes messages as Apache's producer and broker leave them: with an id, tags, a key and a user property."""
    own = [("WAIT", "true"), ("MSG_REGION", "DefaultRegion"), ("TRACE_ON", "true"), ("CLUSTER", "DefaultCluster")]
    return pa.record_batch(
        {
            "queueOffset": np.arange(ROWS),
            "msgId": make_unique_keys(bytes(10), 1, ROWS),
            "tags": [f"tag-{row % 7}" for row in range(ROWS)],
            "keys": [[f"key-{row}"] for row in range(ROWS)],
            "body": pa.array([b"x" * body_bytes] * ROWS, pa.binary()),
            "properties": pa.array([[("carrier", f"A{row % 100}")] for row in range(ROWS)], _MAP),
            "systemProperties": pa.array([own] * ROWS, _MAP),
            "bornHost": ["10.1.2.3"] * ROWS,
            "storeHost": ["10.1.2.4:10911"] * ROWS,
        }
    )


def make_responses(rows: pa.RecordBatch) -> tuple[memoryview, Ints, Ints]:
    """Returns the bodies of pull responses, and where each begins and ends."""
    stored = pa.RecordBatch.from_arrays([_find_column(rows, field) for field in STORED_SCHEMA], schema=STORED_SCHEMA)
    encoded = encode_records(stored, "bench", 0, 0, {})
    ends = np.array(encoded.ends)
    bounds = np.append(ends[:-1:PULL_ROWS], ends[-1])
    return encoded.data, bounds[:-1], bounds[1:]


def _find_column(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Returns a column of messages without compressed bodies; one that the messages lack has nulls or zeros."""
    if field.name in rows.schema.names:
        return rows.column(field.name).cast(field.type)
    if field.name in ("bodyEncoding", "reconsumeTimes"):
        return pa.array([field.name == "bodyEncoding"] * rows.num_rows).cast(field.type)
    return pa.nulls(rows.num_rows, field.type)


def measure(work: Callable[[], object], runs: int) -> float:
    """Returns the least processor time of a run, in seconds per million rows."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) / ROWS * 1e6


@click.command()
@click.option("--body-bytes", type=click.IntRange(min=0), default=100, help="The size of each body.")
@click.option("--runs", type=click.IntRange(min=1), default=30, help="How often to repeat; the fastest run counts.")
def main(body_bytes: int, runs: int) -> None:
    """Decodes and encodes messages that are ready in memory."""
    rows = make_rows(body_bytes)
    responses = make_responses(rows)
    works: dict[str, Callable[[], object]] = {
        "find records": lambda: locate_records(*responses),
        "read body and queueOffset": lambda: decode_columns(locate_records(*responses), ["body", "queueOffset"]),
        "read the default row": lambda: decode_columns(locate_records(*responses)),
        "write batches": lambda: encode_batch(rows.column("body"), encode_property_texts(rows)),
    }
    print(f"{body_bytes}-byte bodies, core-seconds per million messages")
    for name, work in works.items():
        print(f"{name:28} {measure(work, runs):.3f}")


if __name__ == "__main__":
    main()
