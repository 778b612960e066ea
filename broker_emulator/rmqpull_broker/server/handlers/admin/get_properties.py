"""GetProperties: the brokers of this process and the properties that they run with."""

from __future__ import annotations

from rmqpull_broker import __version__
from rmqpull_broker.core.properties import settable
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.GetPropertiesRequest, caller: Caller) -> rpc.GetPropertiesResponse:
    """Tells every property that has an effect, whether it was set or not."""
    properties = [
        rpc.Property(
            name=entry.name,
            value=_text(getattr(service.state.properties, entry.field)),
            default_value=_text(entry.default),
            unit=entry.unit,
            doc=entry.doc,
        )
        for entry in sorted(settable(), key=lambda entry: entry.name)
    ]
    return rpc.GetPropertiesResponse(
        status=OK, version=__version__, broker_names=service.state.broker_names, properties=properties
    )


def _text(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
