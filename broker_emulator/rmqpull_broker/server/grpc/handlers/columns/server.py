"""DescribeServer: what this server offers to a client of ``rmqpull.v1``."""

from __future__ import annotations

from rmqpull_broker import __version__
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.limits import (
    PUBLISH_BYTES_MAX,
    PUBLISH_ROWS_MAX,
    PUBLISH_TOPICS_MAX,
    PULL_BYTES_MAX,
    PULL_ROWS_MAX,
)
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


async def describe_server(
    service: Service, request: rpc.DescribeServerRequest, caller: Caller
) -> rpc.DescribeServerResponse:
    """DescribeServer: returns the version, the extensions and the limits. The caller needs no client id."""
    return rpc.DescribeServerResponse(
        status=OK,
        version=__version__,
        extensions=sorted(service.extensions),
        pull_rows_max=PULL_ROWS_MAX,
        pull_bytes_max=PULL_BYTES_MAX,
        publish_bytes_max=PUBLISH_BYTES_MAX,
        publish_rows_max=PUBLISH_ROWS_MAX,
        publish_topics_max=PUBLISH_TOPICS_MAX,
        tells_commit_gaps=True,
        takes_priorities=True,
    )
