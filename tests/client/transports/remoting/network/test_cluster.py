"""What a process knows of a cluster, as tables: queues, addresses, and brokers that come and go."""

from __future__ import annotations

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.network.cluster import (
    BrokerNotListed,
    ClusterView,
    Place,
    Target,
    is_system_topic,
)
from rmqpull_proto.remoting.routes import BrokerData, QueueData, TopicRoute
from tests.harness.scripted_remoting import make_route

MASTER, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911"
PAIR = {"broker-a": {0: MASTER, 1: SLAVE}}


def view(broker_addresses: str = "", name_servers: str = "ns-1:9876;ns-2:9876") -> ClusterView:
    return ClusterView(
        Connection(name_servers=name_servers, broker_addresses=broker_addresses, poll_name_server_interval_ms=30_000)
    )


@pytest.mark.parametrize(
    ("target", "addresses"),
    [
        (Target("t", "broker-a"), [MASTER]),
        (Target("t", "broker-a", may_use_slave=True), [MASTER, SLAVE]),
        (Target("t", "broker-a", 1), [SLAVE]),
        (Target("t", "broker-a", 1, may_use_slave=True), [SLAVE, MASTER]),
        (Target("t", "broker-a", 7, may_use_slave=True), [MASTER, SLAVE]),
    ],
)
def test_a_request_goes_to_the_wanted_broker_first(target: Target, addresses: list[str]) -> None:
    cluster = view()
    cluster.learn("t", make_route(PAIR), 0)
    assert [place.address for place in cluster.find_places("t", target)] == addresses


def test_given_addresses_replace_registered_ones() -> None:
    cluster = view("broker-a=localhost:10911")
    cluster.learn("t", make_route(PAIR), 0)
    assert cluster.find_places("t", Target("t", "broker-a", may_use_slave=True)) == [
        Place("localhost:10911", "broker-a", 0, is_given=True),
        Place(SLAVE, "broker-a", 1),
    ]


def test_a_given_address_may_be_that_of_the_proxy() -> None:
    cluster = view("broker-a=localhost:8080")
    cluster.is_proxied = True
    cluster.learn("t", make_route(PAIR), 0)
    assert all(place.is_proxy for place in cluster.find_places("t", Target("t", "broker-a", may_use_slave=True)))


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (Target("t", "broker-b"), "does not name broker broker-b"),
        (Target("t", "broker-a"), "broker-a has no master now"),
        (Target("t", "broker-a", 2), "broker-a has no slave with id 2 now"),
    ],
)
def test_a_broker_that_is_not_listed_is_named(target: Target, text: str) -> None:
    cluster = view("broker-b=localhost:1")  # an address without a broker in the route is of no use
    cluster.learn("t", make_route({"broker-a": {1: SLAVE}}), 0)
    with pytest.raises(BrokerNotListed, match=text):
        cluster.find_places("t", target)


def queue(broker: str, queue_id: int) -> MessageQueue:
    return MessageQueue("t", broker, queue_id)


@pytest.mark.parametrize(
    ("perm", "readable", "writable"), [(6, 2, 3), (4, 2, 0), (2, 0, 3), (7, 2, 3), (1, 0, 0), (0, 0, 0)]
)
def test_permissions_and_numbers_say_which_queues_there_are(perm: int, readable: int, writable: int) -> None:
    known = view().learn("t", make_route(PAIR, 2, perm, write_queues=3), 0)
    assert known.list_readable("t") == [queue("broker-a", number) for number in range(readable)]
    assert known.list_writable("t") == [queue("broker-a", number) for number in range(writable)]


def test_a_broker_without_a_master_is_only_read() -> None:
    known = view().learn("t", make_route({"broker-a": {1: SLAVE}, "broker-b": {0: MASTER}}, 1), 0)
    assert known.list_readable("t") == [queue("broker-a", 0), queue("broker-b", 0)]
    assert known.list_writable("t") == [queue("broker-b", 0)]


def test_a_broker_that_the_name_server_drops_stays_known_until_it_says_that_the_topic_is_gone() -> None:
    cluster = view()
    cluster.learn("t", make_route({"broker-a": {0: MASTER}, "broker-b": {0: SLAVE}}, 1), 0)
    known = cluster.learn("t", make_route({"broker-b": {0: SLAVE}}, 1), 1)
    assert cluster.list_absent("t") == ["broker-a"]
    assert known.list_readable("t") == [queue("broker-b", 0), queue("broker-a", 0)]
    assert known.list_writable("t") == [queue("broker-b", 0)]
    assert cluster.find_places("t", Target("t", "broker-a")) == [Place(MASTER, "broker-a")]
    cluster.drop_broker("t", "broker-a")
    assert cluster.list_absent("t") == []
    assert view().list_absent("t") == []


def test_a_broker_comes_back_at_another_address() -> None:
    cluster = view()
    cluster.learn("t", make_route({"broker-a": {0: MASTER}}), 0)
    known = cluster.learn_missing("t", 1)
    assert known is not None
    assert known.list_writable("t"), "the only broker is sent to, too: it may be back"
    cluster.learn("t", make_route({"broker-a": {0: SLAVE}}), 2)
    assert cluster.list_absent("t") == []
    assert cluster.find_places("t", Target("t", "broker-a")) == [Place(SLAVE, "broker-a")]


def test_a_topic_that_no_broker_has_is_forgotten() -> None:
    cluster = view()
    assert cluster.learn_missing("t", 0) is None
    cluster.learn("t", make_route({"broker-a": {0: MASTER}}), 0)
    cluster.learn_missing("t", 1)
    cluster.drop_broker("t", "broker-a")
    assert cluster.get_known("t") is None


def test_a_route_is_asked_for_again_after_the_interval_or_soon_after_a_failure() -> None:
    cluster = view()
    assert not cluster.is_fresh("t", 0)
    cluster.learn("t", make_route(PAIR), 0)
    assert cluster.is_fresh("t", 29.9)
    assert not cluster.is_fresh("t", 30.0)
    cluster.suspect("t")
    assert cluster.is_fresh("t", 0.1), "many requests fail at the same time, and one look at the route is enough"
    assert not cluster.is_fresh("t", 0.3)
    cluster.keep("t", 0.3)
    assert cluster.is_fresh("t", 30.2)


def test_name_servers_take_turns_when_one_fails() -> None:
    cluster = view(name_servers="a:1;b:2;c:3;a:1")
    assert [str(place) for place in cluster.list_name_servers()] == [
        f"name server {at}" for at in ("a:1", "b:2", "c:3")
    ]
    cluster.leave_name_server("b:2")
    assert cluster.list_name_servers()[0].address == "a:1", "another request has left it before"
    cluster.leave_name_server("a:1")
    assert [place.address for place in cluster.list_name_servers()] == ["b:2", "c:3", "a:1"]


@pytest.mark.parametrize(
    ("servers", "brokers", "text"),
    [
        ("", "", "option nameServers"),
        ("localhost", "", "'localhost' is not HOST:PORT"),
        ("a:1", "broker-a", "option brokerAddresses.*'broker-a' is not BROKER=HOST:PORT"),
        ("a:1", "b=h:1;b=h:2", "names broker b with id 0 twice"),
    ],
)
def test_bad_addresses_are_refused(servers: str, brokers: str, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        view(brokers, servers)


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("orders", False),
        ("%RETRY%g", False),
        ("TBW102", True),
        ("SCHEDULE_TOPIC_XXXX", True),
        ("rmq_sys_wheel_timer", True),
        ("DefaultCluster", True),
        ("DefaultCluster_REPLY_TOPIC", True),
        ("broker-a", True),
        ("broker-b", False),
        ("MY_REPLY_TOPIC", False),
    ],
)
def test_topics_of_the_system_are_told(name: str, is_own: bool) -> None:
    assert is_system_topic(name, {"DefaultCluster", "broker-a"}) is is_own


def test_places_name_themselves() -> None:
    assert str(Place("h:1", "broker-a")) == "broker broker-a at h:1"
    assert str(Place("h:1", "broker-a", 2)) == "broker broker-a (slave with id 2) at h:1"


def test_a_queue_is_a_target() -> None:
    assert Target.of(MessageQueue("t", "b", 3), 1, may_use_slave=True) == Target("t", "b", 1, True)


def test_several_data_of_one_broker_add_up() -> None:
    route = TopicRoute(
        (QueueData("b", 1, 1, 6), QueueData("c", 1, 1, 6)),
        (BrokerData("one", "b", {0: "h:1"}), BrokerData("other", "b", {1: "h:2"})),
    )
    assert view().learn("t", route, 0).get_addresses("b") == {0: "h:1", 1: "h:2"}


def test_a_broker_is_expected_until_a_route_names_it_or_it_is_forgotten() -> None:
    cluster = view()
    for broker_name in ("broker-a", "broker-b", "broker-c"):
        cluster.expect("orders", broker_name)
    assert cluster.expected == {"orders": {"broker-a", "broker-b", "broker-c"}}
    cluster.learn("orders", make_route({"broker-a": {0: "10.0.0.1:10911"}}), 0.0)
    cluster.forget("orders", ["broker-b"])
    assert cluster.expected == {"orders": {"broker-c"}}
    cluster.expect("orders", "broker-a")
    assert cluster.expected == {"orders": {"broker-c"}}, "a route names it"
    cluster.forget("orders", ["broker-c"])
    assert cluster.expected == {}


@pytest.mark.parametrize(("is_proxied", "readable"), [(True, [0, 1, 2, 3]), (False, [0, 1]), (None, [0, 1])])
def test_proxies_tell_old_routes_so_the_most_queues_count(is_proxied: bool | None, readable: list[int]) -> None:
    cluster = view()
    cluster.is_proxied = is_proxied
    for queues in (4, 2):
        cluster.learn("t", make_route({"broker-a": {0: "h:1"}}, queues=queues), 0)
    known = cluster.get_complete("t")
    assert known is not None
    assert [queue.queue_id for queue in known.list_readable("t")] == readable
    assert len(known.list_writable("t")) == 2


def test_queues_that_an_earlier_process_has_read_count_behind_proxies() -> None:
    cluster = view()
    cluster.is_proxied = True
    cluster.expect("t", "broker-a", 3)
    cluster.expect("t", "broker-a", 2)
    cluster.learn("t", make_route({"broker-a": {0: "h:1"}}, queues=1), 0)
    known = cluster.get_complete("t")
    assert known is not None
    assert len(known.list_readable("t")) == 3
