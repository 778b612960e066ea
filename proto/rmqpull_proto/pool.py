"""The descriptor pool of this package's message types.

Generated modules normally use protobuf's default pool, in which a full name may exist only once per process. RocketMQ's
official client for Python registers the names of ``apache.rocketmq.v2`` there, so the second of two packages would fail
with "duplicate symbol". Generated modules of this package use ``POOL`` instead.

A consequence: ``Timestamp`` and ``Duration`` in our messages are classes of this pool, not of
``google.protobuf.timestamp_pb2``. The two cannot be mixed, although the type stubs allow it. Set such a field in place
(``FromMilliseconds``), from a dict or from a ``datetime``.
"""

from __future__ import annotations

from google.protobuf import duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool


def _make_pool() -> DescriptorPool:
    pool = DescriptorPool()
    for well_known in (duration_pb2, timestamp_pb2):
        pool.AddSerializedFile(well_known.DESCRIPTOR.serialized_pb)
    return pool


POOL = _make_pool()
