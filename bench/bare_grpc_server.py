"""A gRPC server that returns prepared responses at once: it shows what gRPC in Python costs by itself.

It ignores its command line, which is that of the broker. SendMessage returns one entry per message, PullColumns the
bytes of the last PublishColumns.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import grpc

from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS, MESSAGING, Method, Service

_LIMITS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_published = v1.PullColumnsResponse()


async def send(request: v2.SendMessageRequest, context: Any) -> v2.SendMessageResponse:
    return v2.SendMessageResponse(entries=[v2.SendResultEntry() for _ in request.messages])


async def publish(request: v1.PublishColumnsRequest, context: Any) -> v1.PublishColumnsResponse:
    _published.arrow_ipc = request.arrow_ipc
    return v1.PublishColumnsResponse()


async def pull(request: v1.PullColumnsRequest, context: Any) -> v1.PullColumnsResponse:
    return v1.PullColumnsResponse(arrow_ipc=_published.arrow_ipc)


def handler(method: Method, answer: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=method.request.FromString, response_serializer=method.response.SerializeToString
    )


def generic(service: Service, answers: dict[str, Any]) -> Any:
    handlers = {name: handler(service.methods[name], answer) for name, answer in answers.items()}
    return grpc.method_handlers_generic_handler(service.name, handlers)


async def main() -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    server = grpc.aio.server(options=_LIMITS)
    server.add_generic_rpc_handlers(
        [generic(MESSAGING, {"SendMessage": send}), generic(COLUMNS, {"PublishColumns": publish, "PullColumns": pull})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"ready endpoints=127.0.0.1:{port} pid={os.getpid()}", flush=True)
    await stopped.wait()
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main())
