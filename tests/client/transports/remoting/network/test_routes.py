"""Routes: when they are asked for, and which topics and brokers are gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from rmqpull_client.errors import BrokerFailed, BrokerUnavailable, OptionError, TopicNotFound
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.routes import TopicRoute
from tests.harness.scripted_remoting import Reaction, RouteScript, ScriptedServer, make_route, refuse_code

ASK = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
MASTER = Target("orders", "broker-a")

Open = Callable[..., RemotingChannel]


def test_a_name_server_that_has_just_started_hides_no_topic(connect: Open, name_server: ScriptedServer) -> None:
    """It knows a topic when its brokers have registered again, up to 30 s later. Another one knows it all the time."""
    with ScriptedServer(RouteScript({})) as empty:
        channel = connect(name_servers=f"{empty.address};{name_server.address}")
        assert channel.call(MASTER, ASK).fields["offset"] == "7"
        assert empty.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 1
        with pytest.raises(TopicNotFound):
            channel.routes.get_route("other")
        empty.stop()
        with pytest.raises(TopicNotFound):
            channel.routes.get_route("other")


def test_routes_of_many_topics_take_one_round_trip(connect: Open, name_server: ScriptedServer) -> None:
    found = connect().routes.get_routes(["orders", "broker-a", "TBW102"])
    assert list(found) == ["orders", "broker-a", "TBW102"]
    assert name_server.connections == 1
    asked = [request for request in name_server.requests if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC]
    assert [request.fields["acceptStandardJsonOnly"] for request in asked] == ["true"] * 3


def test_an_unknown_topic_is_named(connect: Open) -> None:
    with pytest.raises(TopicNotFound, match=r"no route for topic nothing.*mqadmin updateTopic") as refused:
        connect().routes.get_route("nothing")
    assert refused.value.code == "TOPIC_NOT_EXIST"


def test_a_static_topic_is_refused(connect: Open, name_server: ScriptedServer) -> None:
    body = b'{"queueDatas":[],"brokerDatas":[],"topicQueueMappingByBroker":{"broker-a":{"totalQueues":2}}}'
    assert TopicRoute.decode(body).is_static
    name_server.script = lambda request: request.make_response(0, body=body)
    with pytest.raises(OptionError, match="Topic orders is a static topic"):
        connect().routes.get_route("orders")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"queueDatas":[{"perm":6}]}', b"\xff\xff"])
def test_an_unreadable_route_is_told(connect: Open, name_server: ScriptedServer, body: bytes) -> None:
    name_server.script = lambda request: request.make_response(0, body=body)
    with pytest.raises(BrokerFailed, match=r"name server .* to GET_ROUTEINFO_BY_TOPIC cannot be read"):
        connect().routes.get_route("orders")


def test_routes_are_asked_for_again_after_the_interval(
    connect: Open, name_server: ScriptedServer, now_s: list[float]
) -> None:
    channel = connect(poll_name_server_interval_ms=5_000)
    for now_s[0], requests in ((0.0, 1), (4.0, 1), (5.0, 2), (9.0, 2), (10.0, 3)):
        channel.call(MASTER, ASK)
        assert name_server.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == requests
    assert name_server.count(RequestCode.GET_BROKER_CLUSTER_INFO) == 1  # whether it is a proxy is asked once


def test_a_known_route_is_used_while_all_name_servers_are_away(
    connect: Open, name_server: ScriptedServer, now_s: list[float]
) -> None:
    channel = connect()
    channel.call(MASTER, ASK)
    name_server.stop()
    now_s[0] = 3_600.0
    assert channel.call(MASTER, ASK).fields == {"offset": "7"}
    with pytest.raises(BrokerUnavailable, match="No name server responded"):
        connect(request_retries=0).routes.get_route("orders")


class Restart:
    """A name server that no longer has the topic: its broker restarts, or the topic was deleted."""

    def __init__(self, connect: Open, routes: RouteScript, now_s: list[float]) -> None:
        self.channel = connect()
        self.channel.routes.get_route("orders")
        del routes.routes["orders"]
        now_s[0] = 3_600.0


def test_a_known_topic_is_not_gone_while_its_broker_restarts(
    connect: Open, routes: RouteScript, broker: ScriptedServer, now_s: list[float]
) -> None:
    restart = Restart(connect, routes, now_s)
    broker.stop()
    assert len(restart.channel.routes.get_route("orders").list_readable("orders")) == 4
    broker.start()  # it listens before it registers
    assert restart.channel.routes.get_route("orders").absent == {"broker-a"}
    assert broker.count(RequestCode.GET_TOPIC_STATS_INFO) == 1


def test_a_known_topic_is_gone_when_its_broker_says_so(
    connect: Open, routes: RouteScript, broker: ScriptedServer, now_s: list[float]
) -> None:
    restart = Restart(connect, routes, now_s)
    broker.script = lambda request: request.make_response(ResponseCode.TOPIC_NOT_EXIST, remark="topic not exist")
    with pytest.raises(TopicNotFound):
        restart.channel.routes.get_route("orders")
    assert restart.channel.routes.get_routes(["orders"]) == {}


def test_a_known_topic_is_not_gone_when_only_a_slave_says_so(
    connect: Open, routes: RouteScript, broker: ScriptedServer, now_s: list[float]
) -> None:
    with ScriptedServer(lambda request: request.make_response(ResponseCode.TOPIC_NOT_EXIST)) as slave:
        routes.routes["orders"] = make_route({"broker-a": {0: broker.address, 1: slave.address}})
        restart = Restart(connect, routes, now_s)
        broker.stop()
        assert restart.channel.routes.get_route("orders").absent == {"broker-a"}
        assert slave.count(RequestCode.GET_TOPIC_STATS_INFO) == 1


def test_a_broker_moves(connect: Open, routes: RouteScript, broker: ScriptedServer) -> None:
    channel = connect()
    channel.routes.get_route("orders")
    broker.stop()
    with ScriptedServer(lambda request: request.make_response(0, {"offset": "8"})) as other:
        routes.routes["orders"] = make_route({"broker-a": {0: other.address}})
        assert channel.call(MASTER, ASK).fields == {"offset": "8"}


class Registration(NamedTuple):
    """A broker registers all of its topics at once."""

    time_s: float
    broker_name: str
    broker_id: int
    topics: Sequence[str]


class Restarted:
    """A name server that was started again, and a process that has just begun. Only pauses move the clock.

    ``registrations`` are what brokers register, and when.
    """

    def __init__(self, connect: Open, script: RouteScript, *registrations: Registration) -> None:
        self.now_s = 0.0
        self._script = script
        self.restart(*registrations)
        self.channel = connect(clock=lambda: self.now_s, sleep=self._sleep, server_away_timeout_ms=60_000)

    def restart(self, *registrations: Registration) -> None:
        self._registrations = registrations
        self._register()

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self._register()

    def _register(self) -> None:
        brokers: dict[str, dict[str, dict[int, str]]] = {}
        for time_s, broker_name, broker_id, topics in self._registrations:
            if time_s <= self.now_s:
                for topic in (*topics, f"of-{broker_name}"):  # each has a topic that nobody asks for
                    brokers.setdefault(topic, {})[broker_name] = {broker_id: "127.0.0.1:1"}
        self._script.routes = {topic: make_route(of_topic, queues=1) for topic, of_topic in brokers.items()}

    def find(self, *expected: str) -> list[str]:
        """Returns the brokers of topic orders, for a query that has read queues of the expected ones."""
        for broker_name in expected:
            self.channel.cluster.expect("orders", broker_name)
        found = self.channel.routes.get_routes(["orders"])
        return [queue.broker_name for known in found.values() for queue in known.list_readable("orders")]


At = Registration
A, B = "broker-a", "broker-b"
ORDERS = ("orders",)


@pytest.mark.parametrize(
    ("registrations", "expected", "found", "until_s"),
    [
        pytest.param([At(40, A, 0, ORDERS)], (), [A], 40, id="nobody is registered at first"),
        pytest.param([At(0, A, 0, ORDERS), At(40, B, 0, ORDERS)], (A, B), [A, B], 40, id="one registers later"),
        pytest.param([At(0, A, 0, ()), At(40, B, 0, ORDERS)], (B,), [B], 40, id="the only one with the topic is late"),
        pytest.param(
            [At(0, A, 0, ORDERS), At(0, B, 1, ()), At(40, B, 0, ORDERS)], (A, B), [A, B], 40, id="slave first"
        ),
        pytest.param([At(0, A, 0, ORDERS), At(40, B, 0, ())], (A, B), [A], 40, id="it comes back without the topic"),
        pytest.param([At(0, A, 0, ORDERS)], (A, B), [A], 60, id="it does not come back"),
        pytest.param([], (), [], 60, id="nobody registers"),
        pytest.param([At(0, A, 0, ()), At(0, B, 0, ())], (A, B), [], 0, id="deleted on all brokers"),
        pytest.param([At(0, A, 0, ORDERS), At(0, B, 0, ())], (A, B), [A], 0, id="deleted on one broker"),
        pytest.param([At(0, A, 0, ())], (), [], 0, id="an unknown topic"),
        pytest.param([At(0, A, 0, ORDERS)], (A,), [A], 0, id="all are registered"),
    ],
)
def test_brokers_that_a_query_has_read_are_waited_for_and_deleted_topics_are_not(
    connect: Open,
    routes: RouteScript,
    registrations: Sequence[Registration],
    expected: Sequence[str],
    found: list[str],
    until_s: float,
) -> None:
    """A broker registers all of its topics at once, so one that is registered without a topic has it no more."""
    restarted = Restarted(connect, routes, *registrations)
    assert restarted.find(*expected) == found
    assert until_s <= restarted.now_s <= until_s + 1, "by the clock of the test"
    begun_s = restarted.now_s
    if found:
        assert restarted.find() == found
        assert restarted.now_s == begun_s, "those that have not come back are waited for once"


@pytest.mark.parametrize(
    ("registrations", "is_found", "until_s"),
    [
        pytest.param([At(40, A, 0, (*ORDERS, "copies"))], True, 40, id="its broker is away"),
        pytest.param([At(0, B, 0, ()), At(40, A, 0, (*ORDERS, "copies"))], True, 40, id="and another one is not"),
        pytest.param([At(40, A, 0, ORDERS)], False, 40, id="its broker comes back without it"),
        pytest.param([At(0, B, 0, ())], False, 60, id="its broker does not come back"),
        pytest.param([At(0, A, 0, ORDERS)], False, 0, id="all are registered"),
        pytest.param([At(0, A, 1, ())], False, 0, id="its slave is registered"),
        pytest.param([], False, 60, id="nobody comes back"),
    ],
)
def test_a_topic_is_not_unknown_while_a_broker_that_may_have_it_is_away(
    connect: Open, routes: RouteScript, registrations: Sequence[Registration], is_found: bool, until_s: float
) -> None:
    """The process has used another topic of the broker, and its name servers were started again with it."""
    before = Restarted(connect, routes, At(0, A, 0, ORDERS))
    assert before.find() == [A]
    before.restart(*registrations)
    for _ in range(2):
        assert list(before.channel.routes.get_routes(["copies"])) == ["copies"] * is_found
        assert until_s <= before.now_s <= until_s + 1, "by the clock of the test; and those that stay away only once"


def test_who_is_waited_for_is_named_with_the_unknown_topic(connect: Open, routes: RouteScript) -> None:
    cluster = Restarted(connect, routes, At(0, A, 0, ORDERS))
    cluster.find()
    said = cluster.channel.routes._describe_missing(["copies", "orders"], {A})
    assert said.startswith("broker broker-a, which may have topic copies, and which the name server at 127.0.0.1:"), (
        said
    )
    assert said.endswith(" does not have"), said


def test_a_broker_that_came_back_after_all_is_waited_for_again(connect: Open, routes: RouteScript) -> None:
    cluster = Restarted(connect, routes, At(0, A, 0, ORDERS))
    assert cluster.find() == [A]
    cluster.restart(At(0, B, 0, ()))
    assert cluster.channel.routes.get_routes(["copies"]) == {}
    cluster.restart(At(0, A, 0, ORDERS), At(0, B, 0, ()))
    assert cluster.find() == [A]
    cluster.restart(At(0, B, 0, ()), At(cluster.now_s + 20, A, 0, (*ORDERS, "copies")))
    assert list(cluster.channel.routes.get_routes(["copies"])) == ["copies"]


def test_a_look_for_one_topic_keeps_what_another_one_has_found(connect: Open, routes: RouteScript) -> None:
    """Threads share a channel: one waits for an unknown topic while the other one looks for an expected broker."""
    cluster = Restarted(connect, routes, At(0, A, 0, ORDERS))
    assert cluster.find() == [A]
    cluster.restart(At(0, B, 0, ()), At(40, A, 0, (*ORDERS, "copies")))
    seen = cluster.channel.routes._find_away(["copies"])
    cluster.channel.cluster.expect("orders", B)
    assert cluster.channel.routes._find_away(["orders"]) is None
    assert seen == {A}


def test_a_broker_that_registers_meanwhile_is_asked_for_its_topics(
    connect: Open, routes: RouteScript, name_server: ScriptedServer
) -> None:
    """It may register after the name server was asked for the route, and before it is asked for its brokers."""
    registered = dict(routes.routes)
    routes.routes = {}

    def register(request: RemotingCommand) -> Reaction:
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            routes.routes = registered
        return routes(request)

    name_server.script = register
    assert connect(sleep=pytest.fail).routes.get_route("orders").list_readable("orders")


def test_who_was_waited_for_in_vain_is_told(
    connect: Open, routes: RouteScript, caplog: pytest.LogCaptureFixture
) -> None:
    assert Restarted(connect, routes, At(0, A, 0, ORDERS)).find(A, B) == [A]
    text = caplog.records[-1].getMessage()
    assert "Gave up waiting for broker broker-b of topic orders, which the name server at " in text
    assert "Their queues count as lost" in text


def test_brokers_that_an_earlier_process_has_read_are_waited_for_if_nobody_tells_which_are_there(
    connect: Open, routes: RouteScript, name_server: ScriptedServer
) -> None:
    restarted = Restarted(connect, routes, At(0, A, 0, ORDERS), At(40, B, 0, ORDERS))
    name_server.script = lambda request: (
        refuse_code(request) if request.code == RequestCode.GET_BROKER_CLUSTER_INFO else routes(request)
    )
    assert restarted.find() == [A]
    assert restarted.now_s == 0
    assert restarted.find(A, B) == [A, B]
    assert restarted.now_s == pytest.approx(40, abs=2)


def test_a_broker_that_another_name_server_knows_is_found_there(
    connect: Open, routes: RouteScript, name_server: ScriptedServer
) -> None:
    with ScriptedServer(RouteScript({"orders": make_route({A: {0: "127.0.0.1:1"}}, queues=1)})) as restarted:
        routes.routes["orders"] = make_route({A: {0: "127.0.0.1:1"}, B: {0: "127.0.0.1:1"}}, queues=1)
        channel = connect(name_servers=f"{restarted.address};{name_server.address}", sleep=pytest.fail)
        channel.cluster.expect("orders", B)
        queues = channel.routes.get_route("orders").list_readable("orders")
    assert {queue.broker_name for queue in queues} == {A, B}


def test_a_name_server_without_brokers_does_not_make_a_topic_unknown(connect: Open, routes: RouteScript) -> None:
    restarted = Restarted(connect, routes)
    with pytest.raises(
        BrokerUnavailable, match=r"No broker is registered at .* so the route of topic orders is unknown"
    ):
        restarted.channel.routes.get_route("orders")


def test_a_light_message_queue_is_found_by_the_route_of_its_parent_topic(
    connect: Open, name_server: ScriptedServer, routes: RouteScript, now_s: list[float]
) -> None:
    """It has queue 0 on each broker. A broker says of any such queue that it exists, so it is asked for the parent."""
    channel = connect(parent_topic="orders")
    light, lite = "%LMQ%of-7", "%LMQ%$orders$alice"
    found = channel.routes.get_routes([light, lite])
    for topic in (light, lite):
        assert found[topic].list_readable(topic) == [MessageQueue(topic, "broker-a", 0)]
        assert channel.call(Target(topic, "broker-a"), ASK).fields["offset"] == "7"
    asked = {one.fields["topic"] for one in name_server.requests if one.code == RequestCode.GET_ROUTEINFO_BY_TOPIC}
    assert asked == {"orders"}
    with pytest.raises(TopicNotFound, match=r"no route for topic chats, by which %LMQ%\$chats\$alice is found"):
        channel.routes.get_route("%LMQ%$chats$alice")
    with pytest.raises(OptionError, match="option parentTopic"):
        connect().routes.get_route(light)
