"""The script of a broker with message queues, for a ``ScriptedServer``: it responds to pulls as RocketMQ does.

It can also give short responses, lose messages, and do other things to chosen pulls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rmqpull_client.connection import Connection
from rmqpull_client.flow import Flow
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_remoting import Act, Reaction, RouteScript, ScriptedServer, make_route, refuse_code
from tests.harness.stored_records import StoredRecord

TIMEOUT_MS = 60_000


@dataclass
class QueueScript:
    """A broker with queues of topic "orders" that all hold the offsets ``[min_offset, max_offset)``.

    Args:
        given_max: The most messages in a response.
        missing: Offsets whose messages are gone.
        damaged: Offsets whose records are damaged.
        disturb: Called with each pull and its number. What it returns, unless None, is the reaction.
        suggests: The broker id that responses suggest.
        others: Called with all other requests. What it returns, unless None, is the reaction.
    """

    min_offset: int = 0
    max_offset: int = 100
    given_max: int = 32
    missing: set[int] = field(default_factory=set)
    damaged: set[int] = field(default_factory=set)
    disturb: Callable[[RemotingCommand, int], Reaction | None] = lambda request, number: None
    suggests: int = 0
    others: Callable[[RemotingCommand], Reaction | None] = lambda request: None
    pulls: int = 0

    def __call__(self, request: RemotingCommand) -> Reaction:
        if request.code == RequestCode.PULL_MESSAGE:
            self.pulls += 1
            disturbed = self.disturb(request, self.pulls)
            return self.pull(request) if disturbed is None else disturbed
        found = self.others(request)
        if found is not None:
            return found
        if request.code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
            is_max = request.code == RequestCode.GET_MAX_OFFSET
            return request.make_response(0, {"offset": str(self.max_offset if is_max else self.min_offset)})
        return refuse_code(request)

    def pull(self, request: RemotingCommand) -> Reaction:
        """Responds to a pull. One that may be parked stays parked at the end."""
        offset = int(request.fields["queueOffset"])
        if offset < self.min_offset:
            return self.respond(request, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", self.min_offset)
        if offset > self.max_offset:
            return self.respond(request, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", self.max_offset)
        if offset == self.max_offset:
            if int(request.fields["sysFlag"]) & 2:
                return Act.STALL
            return self.respond(request, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset)
        until = min(offset + int(request.fields["maxMsgNums"]), offset + self.given_max, self.max_offset)
        body = b"".join(self._encode(at) for at in range(offset, until) if at not in self.missing)
        return self.respond(request, ResponseCode.SUCCESS, "FOUND", until, body)

    def respond(
        self, request: RemotingCommand, code: ResponseCode, remark: str, next_offset: int, body: bytes = b""
    ) -> RemotingCommand:
        """Returns a response to a pull."""
        fields = {
            "suggestWhichBrokerId": str(self.suggests),
            "nextBeginOffset": str(next_offset),
            "minOffset": str(self.min_offset),
            "maxOffset": str(self.max_offset),
        }
        return request.make_response(code, fields, body, remark)

    def _encode(self, offset: int) -> bytes:
        record = StoredRecord(b"%d" % offset, queue_offset=offset, properties={"TAGS": "paid"}).encode()
        return record[:84] + b"\x7f\xff\xff\xff" + record[88:] if offset in self.damaged else record


@contextmanager
def serve_queues(
    *scripts: Callable[[RemotingCommand], Reaction],
    slave: Callable[[RemotingCommand], Reaction] | None = None,
    queues: int = 1,
    flow: Flow | None = None,
    connection: Connection | None = None,
) -> Iterator[tuple[RemotingClient, list[ScriptedServer]]]:
    """Serves brokers "broker-a", "broker-b" and so on, and yields a client and the servers; a slave is the last."""
    servers = [ScriptedServer(script) for script in (*scripts, *([slave] if slave else []))]
    names = ["broker-a", "broker-b", "broker-c"][: len(scripts)]
    addresses = {name: {0: server.address} for name, server in zip(names, servers, strict=False)}
    if slave:
        addresses["broker-a"][1] = servers[-1].address
    name_server = ScriptedServer(RouteScript({"orders": make_route(addresses, queues)}))
    settings = replace(
        connection or Connection(request_timeout_ms=TIMEOUT_MS, request_retry_interval_ms=1),
        name_servers=name_server.address,
    )
    client = RemotingClient(RemotingChannel(settings), flow or Flow())
    try:
        with name_server:
            for server in servers:
                server.start()
            yield client, servers
    finally:
        client.close()
        for server in servers:
            server.stop()
