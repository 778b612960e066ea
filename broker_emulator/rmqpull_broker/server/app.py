"""The broker on a port: state, journal, parking and gRPC put together and taken apart again in order."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from rmqpull_broker.core.message_ids import MessageIds
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.ports import FactLog
from rmqpull_broker.core.queue_selection import QueueSelector
from rmqpull_broker.core.sending import Sender
from rmqpull_broker.core.state import BrokerState
from rmqpull_broker.server.journal import Journal
from rmqpull_broker.server.limits import GRPC_MESSAGE_BYTES_MAX
from rmqpull_broker.server.parking import Parking
from rmqpull_broker.server.registry import generic_handlers
from rmqpull_broker.server.service import Service

STOP_GRACE_S = 1.0

_OPTIONS = (
    # Two brokers on one port would share its connections by chance; the second must fail instead.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", GRPC_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", GRPC_MESSAGE_BYTES_MAX),
)


_REASONS = {errno.EADDRINUSE: "the port is in use", errno.EADDRNOTAVAIL: "the address is not this machine's"}


class PortUnavailable(Exception):
    """The address cannot be listened on; the text names it and says why."""


class BrokerServer:
    """Serves a recovered state until it is stopped.

    Arguments: the state; the log that keeps what happens next; the clock in milliseconds since the epoch; ids for
    messages that come without one; whether ``rmqpull.v1`` is served beside the standard protocol.
    """

    def __init__(
        self,
        state: BrokerState,
        log: FactLog,
        clock_ms: Callable[[], int],
        message_ids: MessageIds,
        *,
        with_columns: bool,
    ) -> None:
        self._state = state
        self._clock_ms = clock_ms
        self._message_ids = message_ids
        self._with_columns = with_columns
        self._parking = Parking(state.store, clock_ms)
        self._journal = Journal(state, log, self._parking.kept)
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int, topics: Sequence[TopicConfig]) -> int:
        """Creates missing topics, listens, and returns the port, which is a free one when ``port`` is 0.

        Raises PortUnavailable, or the BrokerError of a topic that cannot be created.
        """
        for topic in topics:
            await self._journal.execute(lambda draft, topic=topic: draft.create_topic(topic))  # type: ignore[misc]
        self._server = grpc.aio.server(options=_OPTIONS)
        port = self._listen(self._server, host, port)
        sender = Sender(QueueSelector(), self._message_ids, f"{host}:{port}")
        service = Service(self._state, self._journal, self._parking, sender, self._clock_ms, (host, port))
        self._server.add_generic_rpc_handlers(generic_handlers(service, with_columns=self._with_columns))
        await self._server.start()
        return port

    @staticmethod
    def _listen(server: grpc.aio.Server, host: str, port: int) -> int:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        _check_port(address, host, port)
        try:
            return server.add_insecure_port(address)
        except RuntimeError:
            raise PortUnavailable(f"cannot listen on {address}: gRPC refused it") from None

    async def stop(self) -> None:
        """Answers parked pulls, finishes what was taken in, and closes the log; everything acknowledged is kept."""
        self._parking.close()
        if self._server is not None:
            await self._server.stop(STOP_GRACE_S)
        await self._journal.close()


def _check_port(address: str, host: str, port: int) -> None:
    """Raises PortUnavailable unless gRPC will get every address of ``host`` that this machine has.

    gRPC is content with one of several: a second broker on ``localhost`` would get ``::1`` beside the first one's
    ``127.0.0.1``, and clients would reach one or the other by chance. gRPC also does not say why it was refused.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise PortUnavailable(f"cannot listen on {address}: the host's name is not known") from None
    refusals = [error for family, _, _, _, place in found if (error := _refusal_to_bind(family, place)) is not None]
    fatal = [error for error in refusals if error.errno in (errno.EADDRINUSE, errno.EACCES)]
    if len(refusals) == len(found) or fatal:
        error = (fatal or refusals)[0]
        raise PortUnavailable(f"cannot listen on {address}: {_REASONS.get(error.errno or 0, error.strerror)}")


def _refusal_to_bind(family: int, place: Any) -> OSError | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does
            probe.bind(place)
    except OSError as error:
        return error
    return None
