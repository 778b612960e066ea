"""What a query's checkpoint says, read by the driver: only there does Spark keep which batch a number stands for.

``offsets/<N>`` has the plan of batch N: the end offsets of its sources, and the time at which it was planned. A batch
that is run again after a crash reads that file again; a batch that is planned anew writes another one.

The sink sees the checkpoint only when it is given as option ``checkpointLocation``, and reads it only where it is a
folder of this machine. Anything else is no error: then nothing is known.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

PLAN_BYTES = 16

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def folder_of(location: str | None) -> Path | None:
    """The folder of a checkpoint, or None for one that Python cannot open: ``s3a://``, ``hdfs://`` and the like.

    Spark's paths are not percent-encoded, not even in a URI.
    """
    if location is None:
        return None
    scheme = _SCHEME.match(location)
    if scheme is None:
        return Path(location)
    if scheme[0].lower() != "file:":
        return None
    path = location[scheme.end() :]
    if path.startswith("//"):
        host, _, rest = path[2:].partition("/")
        return Path(f"/{rest}") if host in ("", "localhost") else None
    return Path(path)


def read_query_id(location: str | None) -> str | None:
    """The id of the checkpoint's query, or None where it cannot be read."""
    folder = folder_of(location)
    if folder is None:
        return None
    try:
        query_id = json.loads((folder / "metadata").read_bytes())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return query_id if isinstance(query_id, str) else None


def read_plan(location: str | None, query_id: str, batch_id: int) -> bytes:
    """A digest of the plan of a batch that is about to be committed, or nothing where it cannot be read.

    Spark may take a plain path for one of another file system, so what is found must be the query's and unfinished:
    a folder that the query left behind here says nothing about its batches now.
    """
    folder = folder_of(location)
    if folder is None or read_query_id(location) != query_id:
        return b""
    try:
        if (folder / "commits" / str(batch_id)).exists() or (folder / "offsets" / str(batch_id + 1)).exists():
            return b""
        plan = (folder / "offsets" / str(batch_id)).read_bytes()
    except OSError:
        return b""
    return hashlib.blake2b(plan, digest_size=PLAN_BYTES).digest() if plan else b""
