"""What a handler of the remoting protocol gets: the request, its connection, and the broker that it is for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.record_pull import RecordPulls
from rmqpull_broker.core.pulling.standing_verdicts import StandingVerdicts
from rmqpull_broker.server.addresses import join_address
from rmqpull_broker.server.peers import Peer
from rmqpull_broker.server.remoting.name_server import NameServer
from rmqpull_broker.server.runtime.service import Service
from rmqpull_proto.remoting.codes import LanguageCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.header_fields import Header

NO_REMARK = "not set any response code"
"""The remark in responses of Apache's broker that have a header, where the broker sets none."""
_H = TypeVar("_H", bound=Header)


@dataclass(frozen=True, slots=True)
class Site:
    """A logical broker as clients of the remoting protocol reach it: its name, and its address in routes.

    ``ip`` is the address of ``host``, for the ids of messages. ``is_vip`` marks requests on the VIP channel, the port
    two below (rules 4.12).
    """

    broker_name: str
    host: str
    port: int
    ip: str
    is_vip: bool = False

    @property
    def address(self) -> str:
        """``host:port``, with an IPv6 host in brackets."""
        return join_address(self.host, self.port)

    @property
    def store_host(self) -> str:
        """``ip:port``: the store host of its messages."""
        return join_address(self.ip, self.port)


@dataclass(slots=True)
class RemotingCall:
    """One request: its command, the connection it came from, and the broker whose port it came to."""

    command: RemotingCommand
    peer: Peer
    site: Site

    def read_header(self, header: type[_H]) -> _H:
        """Reads the fields of the request. Raises WireError."""
        return header.from_fields(self.command.fields)

    def respond(
        self,
        fields: Header | Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
        *,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
    ) -> RemotingCommand:
        """Makes the response. Its language is Java, because clients choose the form of some texts by the sender's."""
        texts = fields.to_fields() if isinstance(fields, Header) else fields
        response = self.command.make_response(code, texts, body, remark)
        response.language = LanguageCode.JAVA
        return response


@dataclass(frozen=True, kw_only=True)
class RemotingService(Service):
    """The broker as handlers of the remoting protocol see it. ``sites`` are its logical brokers, in their order."""

    sites: Sequence[Site]
    record_pulls: RecordPulls
    standing_verdicts: StandingVerdicts
    name_server: NameServer = field(default_factory=NameServer)

    @property
    def properties(self) -> BrokerProperties:
        """The broker's properties."""
        return self.state.properties


Reply = RemotingCommand | bytes | None
"""A response, or its whole frame; None for a request that gets no response."""
Handler = Callable[[RemotingService, RemotingCall], "Reply | Coroutine[Any, Any, Reply]"]
"""Handles a request at once, or returns a coroutine if it has to wait. Raises BrokerError and WireError."""
