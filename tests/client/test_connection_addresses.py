"""The addresses in the settings of a connection: of endpoints, of name servers, and of brokers by name and id."""

from __future__ import annotations

import pytest

from rmqpull_client.connection import Connection, parse_addresses, parse_broker_addresses


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("broker-a=localhost:10911", {("broker-a", 0): "localhost:10911"}),
        ("a=h:1;a:0001=h:2", {("a", 0): "h:1", ("a", 1): "h:2"}),
        (" a = h:1 , b:2=[::1]:3 ", {("a", 0): "h:1", ("b", 2): "[::1]:3"}),
        ("room1@a.b_c|d=h:1", {("room1@a.b_c|d", 0): "h:1"}),
    ],
)
def test_addresses_of_brokers_are_found_by_name_and_id(text: str, found: dict[tuple[str, int], str]) -> None:
    assert parse_broker_addresses(text) == found


@pytest.mark.parametrize("text", ["", "a", "a=", "=h:1", "a=h", "a=h:0", "a:=h:1", "a:-1=h:1", "a=h:1;", "a=h:1;a=h:2"])
def test_anything_else_is_no_address_of_a_broker(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not |twice"):
        parse_broker_addresses(text)


@pytest.mark.parametrize("servers", [{"endpoints": "b:1, a:1;b:1"}, {"name_servers": "b:1, a:1;b:1"}])
def test_addresses_of_servers_keep_their_order(servers: dict[str, str]) -> None:
    assert Connection(**servers).addresses == ("b:1", "a:1") == parse_addresses("b:1, a:1;b:1")  # type: ignore[arg-type]
