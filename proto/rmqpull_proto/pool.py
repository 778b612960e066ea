"""The descriptor pool that holds this package's message types, apart from everybody else's.

Generated modules normally register in protobuf's default pool, where a full name may exist only once per process. The
official RocketMQ client for Python registers the names of ``apache.rocketmq.v2`` there, so whichever package came
second would fail with "duplicate symbol". Generated modules of this package use ``POOL`` instead.

The price: ``Timestamp`` and ``Duration`` inside our messages are classes of this pool, not those of
``google.protobuf.timestamp_pb2``. They do the same but do not mix, whatever the type stubs say: set them in place
(``FromMilliseconds``), from a dict or from a ``datetime``.
"""

from __future__ import annotations

from google.protobuf import duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool


def _private_pool() -> DescriptorPool:
    pool = DescriptorPool()
    for well_known in (duration_pb2, timestamp_pb2):
        pool.AddSerializedFile(well_known.DESCRIPTOR.serialized_pb)
    return pool


POOL = _private_pool()
