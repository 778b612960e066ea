"""What a peer that may not administrate is told, and that no call is named twice."""

from __future__ import annotations

from collections import Counter

import pytest

from rmqpull_broker.config import SETTINGS
from rmqpull_broker.config_sources import name_variable
from rmqpull_broker.core.admin.admin_peers import parse_admin_peers
from rmqpull_broker.core.errors import Forbidden
from rmqpull_broker.server.access import ADMINISTRATION, CHANGES, FLAG, VARIABLE, Access
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.rpc import ADMIN, COLUMNS, MESSAGING, STAGES


@pytest.mark.parametrize(
    ("setting", "address", "ending"),
    [
        (
            "loopback",
            "172.17.0.1:5000",
            "accepts it from loopback addresses, not from 172.17.0.1. "
            "Start it with --admin-from loopback,172.17.0.1, or with RMQPULL_BROKER_ADMIN_FROM=loopback,172.17.0.1",
        ),
        (
            "10.0.0.0/8",
            "[::ffff:192.0.2.7]:5000",
            "accepts it from 10.0.0.0/8, not from 192.0.2.7. "
            "Start it with --admin-from 10.0.0.0/8,192.0.2.7, or with RMQPULL_BROKER_ADMIN_FROM=10.0.0.0/8,192.0.2.7",
        ),
        (
            "none",
            "[fe80::1%eth0]:5000",
            "accepts it from nobody, not from fe80::1. "
            "Start it with --admin-from fe80::1, or with RMQPULL_BROKER_ADMIN_FROM=fe80::1",
        ),
        (
            "all",
            "/tmp/broker.sock",
            "accepts it from everybody, not from '/tmp/broker.sock'. "
            "Start it with --admin-from ADDRESSES, or with RMQPULL_BROKER_ADMIN_FROM=ADDRESSES",
        ),
    ],
)
def test_a_refusal_names_the_call_the_peer_the_flag_and_the_variable(setting: str, address: str, ending: str) -> None:
    access = Access(parse_admin_peers(setting))
    with pytest.raises(Forbidden) as refusal:
        access.check_method("DeleteTopic", address)
    assert str(refusal.value) == f"DeleteTopic is administration: this broker {ending}"
    change = access.find_refusal("PutTopic", address, "topic orders")
    assert str(change) == f"PutTopic would change topic orders, which is administration: this broker {ending}"


def test_a_refusal_names_the_setting_as_it_is_declared() -> None:
    (setting,) = (setting for setting in SETTINGS if setting.name == "admin-from")
    assert (f"--{setting.name}", name_variable(setting)) == (FLAG, VARIABLE)


@pytest.mark.parametrize("address", ["127.0.0.1:5000", "[::1]:5000", "[::ffff:127.0.0.1]:5000"])
def test_without_a_setting_loopback_peers_may_do_everything(address: str) -> None:
    access = Access()
    for one in ADMINISTRATION:
        for code in one.requests:
            access.check_request(code, address)
        for name in one.methods:
            access.check_method(name, address)
    assert access.find_refusal("PutTopic", address, "topic orders") is None


def test_each_call_is_named_once() -> None:
    calls = [call for one in (*ADMINISTRATION, *CHANGES) for call in (*one.requests, *one.methods)]
    assert [call for call, count in Counter(calls).items() if count > 1] == []


def test_methods_of_all_services_have_different_names() -> None:
    """The edge of gRPC knows a method by its name alone, as fault rules do."""
    names = [name for service in (MESSAGING, COLUMNS, ADMIN, STAGES) for name in service.methods]
    assert len(names) == len(set(names))


def test_an_unknown_request_is_none_of_administration() -> None:
    Access().check_request(31_000, "172.17.0.1:5000")
    with pytest.raises(Forbidden, match="DELETE_TOPIC_IN_BROKER"):
        Access().check_request(RequestCode.DELETE_TOPIC_IN_BROKER, "172.17.0.1:5000")
