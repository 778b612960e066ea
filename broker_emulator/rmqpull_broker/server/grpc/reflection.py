"""grpc.reflection.v1alpha: what is served, told to tools such as grpcurl that bring no protos of their own.

The broker's messages live in a descriptor pool of their own (``rmqpull_proto.pool``), those of health and reflection in
protobuf's default one: a name is looked for in ours first, so that another library's descriptors of the same names,
which may be of another version, are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import grpc
from google.protobuf.descriptor_pool import Default, DescriptorPool
from grpc_reflection.v1alpha import reflection

from rmqpull_proto.pool import POOL

SERVICE_NAME: str = reflection.SERVICE_NAME


class _BothPools:
    """The look-ups that reflection makes, in our pool and then in the default one."""

    def __getattr__(self, find: str) -> Callable[..., Any]:
        def found(*arguments: Any) -> Any:
            try:
                return getattr(POOL, find)(*arguments)
            except KeyError:
                return getattr(Default(), find)(*arguments)

        return found


def enable_reflection(server: grpc.aio.Server, services: Sequence[str]) -> None:
    """Lets a server tell what it serves; ``services`` are full names, to which this one is added."""
    reflection.enable_server_reflection((*services, SERVICE_NAME), server, pool=cast(DescriptorPool, _BothPools()))
