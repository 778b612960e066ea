"""Which ports the VIP channel cannot have."""

from __future__ import annotations

import re

import pytest

from rmqpull_broker.config_values import Address, SettingError, parse_addresses
from rmqpull_broker.config_vip import check_vip_ports

NAMES = ("a", "b", "c")


def check(remoting: str, advertised: str = "", brokers: int = 1, **others: Address) -> None:
    told = parse_addresses(advertised) if advertised else ()
    check_vip_ports(parse_addresses(remoting), told, NAMES[:brokers], others)


@pytest.mark.parametrize(
    ("remoting", "advertised", "brokers", "sentence"),
    [
        ("h:2", "", 1, "two below the port 2 of a, and there is no port 0: use port 3 or above"),
        ("h:1", "", 1, "there is no port -1"),
        ("h:9876", "x:2", 1, "two below the port 2 of a, and there is no port 0"),
        (
            "h:9876",
            "",
            3,
            "two below the port 9878 of c, and port 9876 is that of remoting (a): use ports further apart",
        ),
        ("h:9876,h:9878", "", 2, "the port 9878 of b, and port 9876 is that of remoting (a)"),
        ("h:9876,0.0.0.0:9878", "", 2, "and port 9876 is that of remoting (a)"),
        ("h:9876", "x:9878", 1, "the port 9878 of a, and port 9876 is that of remoting (a)"),
        ("h:1001,h:2001", "x:9876,y:9876", 2, "and port 9874 is that of remoting-vip (a)"),
        ("h:8083", "", 1, "two below the port 8083 of a, and port 8081 is that of listen"),
        ("0.0.0.0:9092", "", 1, "two below the port 9092 of a, and port 9090 is that of metrics-listen"),
    ],
)
def test_a_port_that_is_taken_or_missing_is_refused(
    remoting: str, advertised: str, brokers: int, sentence: str
) -> None:
    with pytest.raises(SettingError, match=re.escape(sentence)) as refusal:
        check(remoting, advertised, brokers, **{"listen": Address("h", 8081), "metrics-listen": Address("m", 9090)})
    assert str(refusal.value).startswith("remoting-vip listens two below the port ")


@pytest.mark.parametrize(
    ("remoting", "advertised", "brokers"),
    [
        ("h:3", "", 1),
        ("h:9876", "", 2),
        ("h:9876,h:9886,h:9896", "", 3),
        ("h:9876,i:9878", "", 2),  # another address of this machine
        ("h:0", "", 3),  # free ports are chosen later
        ("h:0", "x:8000", 1),
        ("h:8083", "x:9876", 1),
    ],
)
def test_other_ports_are_taken(remoting: str, advertised: str, brokers: int) -> None:
    check(remoting, advertised, brokers, listen=Address("h", 8081))
