"""Settings: how each value is parsed, and the errors for invalid values."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rmqpull_broker.config import SETTINGS, BrokerConfig, TlsFiles, config_from
from rmqpull_broker.config_values import (
    EXTENSIONS,
    SYSTEM_CLOCK,
    Address,
    ClockSpec,
    SettingError,
    TopicSpec,
    parse_address,
    parse_admin_from,
    parse_brokers,
    parse_clock,
    parse_data_dir,
    parse_extensions,
    parse_log_format,
    parse_log_level,
    parse_property,
    parse_size,
    parse_topic,
)
from rmqpull_broker.core.model import TopicType


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8081", Address("127.0.0.1", 8081)),
        ("localhost:0", Address("localhost", 0)),
        ("0.0.0.0:65535", Address("0.0.0.0", 65535)),
        ("[::1]:8081", Address("::1", 8081)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: Address) -> None:
    assert parse_address(text) == address


BAD_PORTS = [
    "",
    "127.0.0.1",
    ":8081",
    "[]:8081",
    "h:",
    "h:x",
    "h:-1",
    "h:65536",
    "h:1.5",
    "h: 1",
    "h:٣",
    "h:" + "9" * 5000,
]


@pytest.mark.parametrize("text", BAD_PORTS)
def test_a_bad_address_is_refused_with_the_form_of_a_good_one(text: str) -> None:
    with pytest.raises(SettingError, match=r"is not an address: use HOST:PORT") as refusal:
        parse_address(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("flights:8", TopicSpec("flights", 8, TopicType.NORMAL)),
        ("a:1:NORMAL", TopicSpec("a", 1, TopicType.NORMAL)),
        ("a:1024:FIFO", TopicSpec("a", 1024, TopicType.FIFO)),
        ("a-b_c:2:DELAY", TopicSpec("a-b_c", 2, TopicType.DELAY)),
        ("urgent:4:priority", TopicSpec("urgent", 4, TopicType.PRIORITY)),
        ("%RETRY%g:2:transaction", TopicSpec("%RETRY%g", 2, TopicType.TRANSACTION)),
    ],
)
def test_a_topic_has_a_name_queues_and_a_type(text: str, topic: TopicSpec) -> None:
    assert parse_topic(text) == topic


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is not a topic: use NAME:QUEUES or NAME:QUEUES:TYPE"),
        ("orders", "'orders' is not a topic"),
        ("orders:", "'orders:' is not a topic"),
        ("orders:x", "'orders:x' is not a topic"),
        ("orders:-1", "'orders:-1' is not a topic"),
        ("orders:1:FIFO:x", "'orders:1:FIFO:x' is not a topic"),
        ("orders:" + "9" * 5000, "is not a topic"),
        ("orders:0", "topic 'orders' has 0 queues: use 1 to 1024"),
        ("orders:1025", "topic 'orders' has 1025 queues: use 1 to 1024"),
        (
            "orders:1:LITE",
            "topic 'orders' has the unknown type 'LITE': use one of NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY",
        ),
        ("orders:1:", "has the unknown type ''"),
        (":1", "topic '' has an illegal name: The specified topic is blank."),
        ("a.b:1", "topic 'a.b' has an illegal name: The specified topic: a.b, contains illegal characters"),
        ("t" * 128 + ":1", "longer than topic max length"),
        ("TBW102:1", "topic 'TBW102' has an illegal name: cannot access system topic"),
    ],
)
def test_a_bad_topic_is_refused_with_a_reason(text: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refusal:
        parse_topic(text)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "extensions"),
    [
        ("columns,admin", {"columns", "admin"}),
        ("admin,columns", {"columns", "admin"}),
        ("columns", {"columns"}),
        ("admin", {"admin"}),
        ("none", set()),
    ],
)
def test_extensions_are_named(text: str, extensions: set[str]) -> None:
    assert parse_extensions(text) == extensions


@pytest.mark.parametrize("text", ["", "rows", "columns,rows", "columns,none", "COLUMNS"])
def test_other_extensions_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="has unknown extensions: use some of 'columns,admin,stages', or 'none'"):
        parse_extensions(text)


def test_brokers_are_separated_by_commas() -> None:
    assert parse_brokers("broker-a") == ("broker-a",)
    assert parse_brokers("broker-a, broker_B,3,room1@c") == ("broker-a", "broker_B", "3", "room1@c")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is not a broker name: use letters, digits, '-', '_' and '@'"),
        ("a,", "'' is not a broker name"),
        ("a b", "'a b' is not a broker name"),
        ("a,b,a", "broker 'a' is given 2 times: give it once"),
        (",".join(f"b{number}" for number in range(65)), "65 brokers are above the max 64"),
    ],
)
def test_bad_brokers_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refusal:
        parse_brokers(text)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("system", SYSTEM_CLOCK),
        ("manual", ClockSpec(is_manual=True)),
        ("manual:1970-01-01T00:00:01Z", ClockSpec(is_manual=True, start_ms=1_000)),
        ("manual:1970-01-01T00:00:01", ClockSpec(is_manual=True, start_ms=1_000)),
        ("manual:1970-01-01T02:00:01+02:00", ClockSpec(is_manual=True, start_ms=1_000)),
    ],
)
def test_a_clock_is_the_systems_or_a_manual_one_with_a_start(text: str, clock: ClockSpec) -> None:
    assert parse_clock(text) == clock


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is not a clock: use system, manual, or manual:2013-01-31T12:00:00Z"),
        ("sundial", "'sundial' is not a clock"),
        ("system:2013", "'system:2013' is not a clock"),
        ("manual:noon", "'noon' is not a time"),
        ("manual:1969-12-31T23:59:59Z", "'1969-12-31T23:59:59Z' is before 1970"),
    ],
)
def test_a_bad_clock_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refusal:
        parse_clock(text)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("512K", 524_288), ("3M", 3 << 20), ("10G", 10 << 30), ("1T", 1 << 40)]
)
def test_a_size_is_in_bytes_or_with_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5G", "G", "10GB", "1 G"])
def test_a_bad_size_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="is not a size: use a number of bytes above 0, or with K, M, G or T"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("fileReservedTime=48", ("file_reserved_time", 48)),
        ("mappedFileSizeCommitLog=1073741824", ("mapped_file_size_commit_log", 1 << 30)),
        ("autoCreateTopicEnable=false", ("auto_create_topic_enable", False)),
        ("brokerClusterName=a=b", ("broker_cluster_name", "a=b")),
    ],
)
def test_a_property_has_apaches_name_and_a_value_of_its_type(text: str, pair: tuple[str, object]) -> None:
    assert parse_property(text) == pair


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fileReservedTime", "'fileReservedTime' is not a property: use NAME=VALUE"),
        ("fileReserveTime=1", "unknown property 'fileReserveTime'. Did you mean 'fileReservedTime'?"),
        ("file_reserved_time=1", "unknown property 'file_reserved_time'. Did you mean 'fileReservedTime'?"),
        ("colour=red", "unknown property 'colour'"),
        ("fileReservedTime=long", "property fileReservedTime is 'long': use an integer"),
        ("fileReservedTime=1.5", "property fileReservedTime is '1.5': use an integer"),
        ("autoCreateTopicEnable=yes", "property autoCreateTopicEnable is 'yes': use true or false"),
        ("brokerClusterName=", "property brokerClusterName is empty"),
        (
            "messageDelayLevel=1s soon",
            "property messageDelayLevel is '1s soon': 'soon' is not a delay: expected a number",
        ),
        ("fileReservedTime=-1", "property fileReservedTime is -1: expected 0 to 2147483647"),
    ],
)
def test_a_bad_property_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refusal:
        parse_property(text)
    assert sentence in str(refusal.value)


def test_a_data_directory_has_a_name() -> None:
    assert parse_data_dir("./data") == "./data"
    for text in ("", "  ", "a\0b"):
        # An unset shell variable gives an empty name, which must not mean the working directory.
        with pytest.raises(SettingError, match="is not a directory"):
            parse_data_dir(text)


def values(**changed: Any) -> dict[str, Any]:
    """All settings at their defaults, except the address and the given ones."""
    return {**{setting.attribute: setting.default_value for setting in SETTINGS}, "listen": Address("h", 1), **changed}


def test_a_configuration_is_made_from_parsed_values() -> None:
    topics = (parse_topic("a:1"), parse_topic("b:2:FIFO"))
    config = config_from(values(topic=topics, data_dir="d", extensions=frozenset(), brokers=("x", "y")))
    assert config == BrokerConfig(Address("h", 1), topics, "d", frozenset(), ("x", "y"))
    assert config_from(values()) == BrokerConfig(Address("h", 1))
    assert config_from(values()).extensions == set(EXTENSIONS)
    watched = config_from(values(metrics_listen=Address("m", 2), log_format="json", log_level="debug"))
    assert (watched.metrics_listen, watched.log_format, watched.log_level) == (Address("m", 2), "json", "debug")


def test_logs_have_a_format_and_a_level() -> None:
    assert [parse_log_format(text) for text in ("text", "json")] == ["text", "json"]
    assert [parse_log_level(text) for text in ("debug", "WARNING")] == ["debug", "warning"]
    with pytest.raises(SettingError, match="'xml' is not a log format: use 'text' or 'json'"):
        parse_log_format("xml")
    with pytest.raises(SettingError, match="'loud' is not a log level: use one of debug, info, warning, error"):
        parse_log_level("loud")


def test_properties_become_those_of_the_broker_the_last_one_winning() -> None:
    pairs = (("file_reserved_time", 1), ("trace_on", False), ("file_reserved_time", 2))
    properties = config_from(values(property=pairs)).properties
    assert (properties.file_reserved_time, properties.trace_on) == (2, False)
    assert config_from(values(property=pairs, retention_bytes=7)).properties.retention_bytes == 7


@pytest.mark.parametrize("second", ["a:1", "a:2", "a:1:FIFO"])
def test_a_topic_is_given_once(second: str) -> None:
    with pytest.raises(SettingError, match="topic 'a' is given 2 times: give it once"):
        config_from(values(topic=(parse_topic("a:1"), parse_topic("b:1"), parse_topic(second))))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_declared_completely(setting: Any) -> None:
    assert setting.doc.endswith(".")
    assert setting.is_switch or setting.form.isupper() or ":" in setting.form
    if setting.default is not None:
        setting.parse(setting.default)


# --- the remoting protocol --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"remoting_advertised": "10.0.0.7:9876"}, "remoting-advertised has no effect without remoting"),
        (
            {"remoting": "h:1", "remoting_advertised": "a:1,b:2"},
            "remoting-advertised has 2 addresses for 1 brokers: give one for each broker",
        ),
        ({"remoting": "h:1,h:2"}, "remoting has 2 addresses for 1 brokers"),
        ({"remoting": "h:1", "tls_key": "k"}, "tls-certificate and tls-key must be given together"),
        ({"remoting": "h:1", "tls_client_ca": "c"}, "tls-client-ca has no effect without tls-certificate"),
        ({"tls_listen": "h:1", "tls_client_ca": "c"}, "tls-client-ca has no effect without tls-certificate"),
        ({"remoting_tls_mode": "enforcing"}, "remoting-tls-mode has no effect without remoting"),
        ({"remoting": "h:1", "remoting_tls_mode": "enforcing"}, "mode has no effect without tls-certificate"),
        ({"tls_key": "k", "tls_certificate": "c"}, "no effect without tls-listen or remoting"),
        ({"remoting": "h:1", "remoting_advertised": "h:0"}, "has port 0: name the ports that clients connect to"),
        ({"remoting": "h:1", "remoting_tls_mode": "sometimes"}, "use permissive or enforcing"),
        ({"remoting": "h:1", "tls_key": " "}, "is not a file"),
        ({"remoting_vip": "true"}, "remoting-vip has no effect without remoting"),
        ({"remoting": "127.0.0.1:8083", "remoting_vip": "true"}, "and port 8081 is that of listen"),
        ({"remoting": "h:9", "tls_listen": "h:7", "remoting_vip": "true"}, "and port 7 is that of tls-listen"),
        ({"remoting": "h:9", "remoting_vip": "yes"}, "'yes' is neither true nor false"),
    ],
)
def test_settings_of_the_remoting_protocol_that_do_not_fit(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingError, match=re.escape(sentence)):
        config_from(parse_all(given))


def test_settings_of_the_remoting_protocol() -> None:
    given = {"remoting": "h:1", "tls_key": "k", "tls_certificate": "c"}
    config = config_from(parse_all({**given, "remoting_tls_mode": "enforcing", "tls_client_ca": "a"}))
    assert config.remoting == (Address("h", 1),)
    assert (config.tls, config.remoting_needs_tls) == (TlsFiles("c", "k", "a"), True)
    assert config_from(parse_all(given)).remoting_needs_tls is False
    with_vip = config_from(parse_all({"remoting": "h:9876", "remoting_vip": "true"}))
    assert (config.remoting_vip, with_vip.remoting_vip) == (False, True)


def parse_all(given: dict[str, str]) -> dict[str, Any]:
    return {
        each.attribute: each.parse(given[each.attribute]) if each.attribute in given else each.default_value
        for each in SETTINGS
    }


def test_administrators_are_peers_on_loopback_or_those_that_are_named() -> None:
    assert config_from(values()).admin_from == parse_admin_from("loopback")
    named = config_from(values(admin_from=parse_admin_from("10.0.0.0/8"))).admin_from
    assert [named.allows(host) for host in ("10.1.2.3", "127.0.0.1")] == [True, False]


def test_bad_addresses_of_administrators_are_refused_with_the_form_of_good_ones() -> None:
    with pytest.raises(SettingError, match="'localhost' is not an IP address or network; use addresses such as"):
        parse_admin_from("localhost")
