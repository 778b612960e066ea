"""Many requests at once: deadlines, retries, lost connections, busy servers. Brokers respond from scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerBusy, BrokerUnavailable, HandshakeFailed, RequestRefused, TopicNotFound
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import NAME_SERVER, Target
from rmqpull_client.transports.remoting.network.exchange import Exchange
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, encode_command
from tests.harness.scripted_remoting import (
    Act,
    Reaction,
    RouteScript,
    Script,
    ScriptedServer,
    make_route,
    refuse_code,
)

LONG_MS, SHORT_MS = 60_000, 1_000
MASTER = Target("orders", "broker-0")
ASK = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})


def respond(request: RemotingCommand) -> RemotingCommand:
    return request.make_response(0, {"offset": request.fields.get("queueId", "")})


def in_turn(*reactions: Reaction | int | None) -> Script:
    """Reacts to each request with the next reaction: a code, or None for a good response. The last one stays."""
    numbers = count()

    def script(request: RemotingCommand) -> Reaction:
        reaction = reactions[min(next(numbers), len(reactions) - 1)]
        if reaction is None:
            return respond(request)
        return request.make_response(reaction, remark="from the script") if isinstance(reaction, int) else reaction

    return script


class Cluster:
    """Brokers ``broker-0`` and so on, all with topic ``orders``, and a name server."""

    def __init__(self, stack: ExitStack, scripts: Sequence[Script], slaves: Sequence[Script] = ()) -> None:
        self.brokers = [stack.enter_context(ScriptedServer(script)) for script in scripts]
        self.slaves = [stack.enter_context(ScriptedServer(script)) for script in slaves]
        addresses = {f"broker-{number}": {0: broker.address} for number, broker in enumerate(self.brokers)}
        for number, slave in enumerate(self.slaves):
            addresses[f"broker-{number}"][1] = slave.address
        self.routes = RouteScript({"orders": make_route(addresses)})
        self.name_server = stack.enter_context(ScriptedServer(self.routes))
        self._stack = stack

    def open(self, timeout_ms: int = LONG_MS, retries: int | None = None, interval_ms: int = 1) -> RemotingChannel:
        channel = RemotingChannel(
            Connection(
                request_timeout_ms=timeout_ms,
                request_retries=retries,
                request_retry_interval_ms=interval_ms,
                name_servers=self.name_server.address,
            )
        )
        self._stack.callback(channel.close)
        return channel


@contextmanager
def serve(*scripts: Script, slaves: Sequence[Script] = ()) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, scripts, slaves)


def test_responses_come_in_the_order_of_the_requests() -> None:
    held: list[RemotingCommand] = []

    def reverse(request: RemotingCommand) -> Reaction:
        held.append(respond(request))
        return b"".join(map(encode_command, reversed(held))) if len(held) == 100 else Act.STALL

    with serve(reverse, respond) as cluster:
        asked = [(Target("orders", f"broker-{n % 2}"), RemotingCommand(30, {"queueId": str(n)})) for n in range(200)]
        responses = cluster.open().call_all(asked)
        assert [response.fields["offset"] for response in responses] == [str(n) for n in range(200)]
        assert [broker.connections for broker in cluster.brokers] == [1, 1], "all requests were in flight at once"


def test_connections_are_used_again() -> None:
    with serve(respond) as cluster:
        channel = cluster.open()
        for _ in range(3):
            channel.call(MASTER, ASK)
        assert cluster.brokers[0].connections == 1
        assert cluster.name_server.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 1


def test_a_connection_that_was_closed_as_idle_is_replaced_silently() -> None:
    with serve(respond) as cluster:
        channel = cluster.open(retries=0)
        channel.call(MASTER, ASK)
        cluster.brokers[0].close_connections()
        assert channel.call(MASTER, ASK).fields == {"offset": "0"}
        assert cluster.brokers[0].connections == 2


def test_a_connection_that_the_server_closes_on_its_next_request_is_replaced_silently() -> None:
    with serve(in_turn(None, Act.CLOSE, None)) as cluster:
        channel = cluster.open(retries=0)
        channel.call(MASTER, ASK)
        assert channel.call(MASTER, ASK).fields == {"offset": "0"}


def test_a_lost_connection_is_replaced_within_the_retries() -> None:
    with serve(in_turn(Act.CLOSE, Act.CLOSE, None)) as cluster:
        assert cluster.open(retries=2).call(MASTER, ASK).fields == {"offset": "0"}
    text = r"in 2 tries.*the server closed the connection.*tlsEnabled"
    with serve(in_turn(Act.CLOSE)) as cluster, pytest.raises(BrokerUnavailable, match=text):
        cluster.open(retries=1).call(MASTER, ASK)


def test_a_request_that_must_not_be_repeated_is_sent_once() -> None:
    with serve(in_turn(Act.CLOSE, None)) as cluster:
        with pytest.raises(BrokerUnavailable):
            cluster.open().call(MASTER, ASK, may_repeat=False)
        assert len(cluster.brokers[0].requests) == 1


def test_a_broker_that_starts_late_is_waited_for() -> None:
    with serve(respond) as cluster:
        channel = cluster.open()
        channel.routes.get_route("orders")
        broker = cluster.brokers[0]
        broker.stop()
        tries = count()

        def start_later(request: RemotingCommand) -> Reaction:
            if next(tries) == 2:
                broker.start()
            return cluster.routes(request)

        cluster.name_server.script = start_later
        assert channel.call(MASTER, ASK).fields == {"offset": "0"}
        assert next(tries) > 2, "the route is asked for while the broker is away"


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.GO_AWAY,
    ],
)
def test_a_busy_broker_is_asked_again(code: int) -> None:
    with serve(in_turn(code, code, None)) as cluster:
        assert cluster.open().call(MASTER, ASK).fields == {"offset": "0"}
        assert cluster.brokers[0].connections == (3 if code == ResponseCode.GO_AWAY else 1)
    with serve(in_turn(code)) as cluster, pytest.raises(BrokerBusy, match="from the script") as refused:
        cluster.open(retries=1).call(MASTER, ASK)
    assert refused.value.code == ResponseCode(code).name


def test_requests_in_flight_on_a_connection_that_goes_away_are_responded_to() -> None:
    def script(request: RemotingCommand) -> Reaction:
        if len(cluster.brokers[0].requests) == 1:
            return request.make_response(ResponseCode.GO_AWAY)
        return respond(request)

    with serve(script) as cluster:
        responses = cluster.open().call_all([(MASTER, ASK), (MASTER, RemotingCommand(30, {"queueId": "7"}))])
        assert [response.fields["offset"] for response in responses] == ["0", "7"]
        assert len(cluster.brokers[0].requests) == 3


def test_a_silent_broker_is_given_up_and_its_connection_too() -> None:
    with serve(in_turn(Act.STALL, None)) as cluster:
        channel = cluster.open(SHORT_MS)
        with pytest.raises(BrokerUnavailable, match=rf"within {SHORT_MS} ms \(.*no response\)"):
            channel.call(MASTER, ASK)
        assert channel.call(MASTER, ASK).fields == {"offset": "0"}
        assert cluster.brokers[0].connections == 2


def test_a_frame_that_lies_about_its_length_ends_the_connection() -> None:
    lie = b"\0\0\0\x20\0\0\0\x40"
    with serve(in_turn(None, lie, None)) as cluster:
        channel = cluster.open()
        channel.call(MASTER, ASK)
        assert channel.call(MASTER, ASK).fields == {"offset": "0"}
        assert cluster.brokers[0].connections == 2
    with serve(in_turn(None, lie, lie)) as cluster:
        channel = cluster.open(retries=0)
        channel.call(MASTER, ASK)
        with pytest.raises(BrokerUnavailable, match="a frame of 32 bytes names a header of 64 bytes"):
            channel.call(MASTER, ASK)
    with serve(in_turn(lie)) as cluster, pytest.raises(HandshakeFailed, match="names a header of 64 bytes"):
        cluster.open().call(MASTER, ASK)


def test_a_slave_is_asked_when_the_master_is_silent() -> None:
    either = Target("orders", "broker-0", may_use_slave=True)
    with serve(in_turn(Act.STALL, None), slaves=[respond]) as cluster:
        channel = cluster.open(1_000)
        assert channel.call(either, ASK).fields == {"offset": "0"}
        assert channel.call(either, ASK).fields == {"offset": "0"}
        assert len(cluster.slaves[0].requests) == 1
        assert cluster.brokers[0].connections == 2, "nobody uses the silent connection again"


def test_half_a_frame_does_not_hang() -> None:
    half = encode_command(RemotingCommand(0, {"offset": "0"}))[:20]
    with serve(in_turn(half)) as cluster, pytest.raises(BrokerUnavailable):
        cluster.open(SHORT_MS).call(MASTER, ASK)


def test_a_slave_responds_while_the_master_is_away() -> None:
    either = Target("orders", "broker-0", may_use_slave=True)
    with serve(respond, slaves=[respond]) as cluster:
        channel = cluster.open()
        channel.routes.get_route("orders")
        cluster.brokers[0].stop()
        assert channel.call(either, ASK).fields == {"offset": "0"}
        assert len(cluster.slaves[0].requests) == 1
        with pytest.raises(BrokerUnavailable, match="broker-0"):
            cluster.open(SHORT_MS).call(MASTER, ASK)


def test_a_slave_that_serves_no_reads_is_named() -> None:
    text = r"slave with id 1.*slaveReadEnable=true"
    slaves = [in_turn(ResponseCode.SYSTEM_BUSY)]
    with serve(respond, slaves=slaves) as cluster, pytest.raises(BrokerBusy, match=text):
        cluster.open(retries=1).call(Target("orders", "broker-0", 1), ASK)


def test_a_topic_that_a_slave_does_not_know_is_asked_for_until_its_master_is_back() -> None:
    """A slave learns new topics late, so only its master decides."""
    slaves = [in_turn(ResponseCode.TOPIC_NOT_EXIST, ResponseCode.TOPIC_NOT_EXIST, None)]
    with serve(respond, slaves=slaves) as cluster:
        assert cluster.open().call(Target("orders", "broker-0", 1), ASK).fields == {"offset": "0"}
        assert len(cluster.slaves[0].requests) == 3
    slaves = [in_turn(ResponseCode.TOPIC_NOT_EXIST)]
    text = r"slave with id 1.*has not learned the topic from its master. Start the master"
    with serve(respond, slaves=slaves) as cluster, pytest.raises(BrokerBusy, match=text):
        cluster.open(retries=1).call(Target("orders", "broker-0", 1), ASK)
    with serve(in_turn(ResponseCode.TOPIC_NOT_EXIST)) as cluster, pytest.raises(TopicNotFound):
        cluster.open().call(MASTER, ASK)


def test_the_next_name_server_is_asked_when_one_is_away_or_silent() -> None:
    with serve(respond) as cluster, ScriptedServer(in_turn(Act.STALL)) as silent:
        away = ScriptedServer(respond)
        servers = f"{away.address};{silent.address};{cluster.name_server.address}"
        channel = RemotingChannel(Connection(name_servers=servers, request_timeout_ms=900))
        assert channel.call(NAME_SERVER, RemotingCommand(206)).code == 0
        assert channel.call(NAME_SERVER, RemotingCommand(206)).code == 0
        assert len(silent.requests) == 1, "the one that has responded stays"
        channel.close()


def test_all_name_servers_are_away() -> None:
    first, second = ScriptedServer(respond), ScriptedServer(respond)
    channel = RemotingChannel(Connection(name_servers=f"{first.address};{second.address}", request_retries=1))
    with pytest.raises(BrokerUnavailable) as error:
        channel.listings.list_topics()
    assert re.match("No name server responded to GET_[A-Z_]+ in 2 tries", str(error.value))
    assert f"{first.address}: Connection refused; {second.address}: Connection refused" in str(error.value)


def test_a_request_that_is_tried_once_says_so() -> None:
    away = ScriptedServer(respond)
    channel = RemotingChannel(Connection(name_servers=away.address))
    with Exchange(channel) as exchange, pytest.raises(BrokerUnavailable, match="in 1 try"):
        exchange.wait([exchange.start(NAME_SERVER, RemotingCommand(206), is_tried_once=True)])


def test_another_protocol_is_told_at_once_unless_another_name_server_responds() -> None:
    with serve(respond) as cluster, ScriptedServer(in_turn(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as web:
        with pytest.raises(
            HandshakeFailed, match=r"remoting protocol.*The server speaks HTTP\. Set option nameServers"
        ):
            RemotingChannel(Connection(name_servers=web.address)).listings.list_topics()
        assert len(web.requests) <= 2, "a retry would meet the same"
        both = RemotingChannel(Connection(name_servers=f"{web.address};{cluster.name_server.address}"))
        assert both.listings.list_topics() == ["orders"]
        both.close()


def test_a_refusal_ends_all_requests() -> None:
    with serve(respond, refuse_code) as cluster, pytest.raises(RequestRefused, match="REQUEST_CODE_NOT_SUPPORTED"):
        cluster.open().call_all([(MASTER, ASK), (Target("orders", "broker-1"), ASK)])


def test_responses_that_nobody_waits_for_are_dropped() -> None:
    strange = encode_command(RemotingCommand(0, opaque=999, flag=1)) + encode_command(RemotingCommand(40, opaque=1))

    def script(request: RemotingCommand) -> Reaction:
        return strange + encode_command(respond(request))

    with serve(script) as cluster:
        assert cluster.open().call(MASTER, ASK).fields == {"offset": "0"}


def test_a_late_caller_still_has_its_time() -> None:
    now_s = [0.0]
    with serve(respond) as cluster:
        channel = cluster.open(1_000)
        channel.routes.get_route("orders")
        with Exchange(channel, lambda: now_s[0]) as exchange:
            call = exchange.start(MASTER, ASK)
            exchange.advance(0)
            now_s[0] = 3_600.0
            assert exchange.wait([call])[0].fields == {"offset": "0"}


def test_a_broker_that_is_away_for_longer_than_a_request_may_take_is_found_again() -> None:
    with serve(respond) as cluster:
        connection = Connection(
            request_timeout_ms=SHORT_MS,
            request_retry_interval_ms=1,
            name_servers=cluster.name_server.address,
            server_away_timeout_ms=LONG_MS,
        )
        channel = RemotingChannel(connection)
        channel.call(MASTER, ASK)
        cluster.brokers[0].stop()
        cluster.name_server.stop()
        tries = count()
        pause = Exchange._pause

        def start_late(exchange: Exchange, call: Call) -> None:
            pause(exchange, call)
            if call.limit.deadline_s > call.limit.since_s + SHORT_MS / 1000 and not next(tries):
                cluster.brokers[0].start()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Exchange, "_pause", start_late)
            assert channel.call(MASTER, ASK).code == 0
        assert next(tries), "the broker came back in a second window"
        channel.close()
