"""Settings: how each is read, and what is said about a bad one."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.config import (
    SETTINGS,
    Address,
    BrokerConfig,
    Extensions,
    SettingError,
    TopicSpec,
    config_from,
    parse_address,
    parse_data_dir,
    parse_extensions,
    parse_log_format,
    parse_log_level,
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
def test_a_bad_address_is_refused_with_what_was_seen_and_wanted(text: str) -> None:
    with pytest.raises(SettingError, match=r"is no address: expected HOST:PORT") as refusal:
        parse_address(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("flights:8", TopicSpec("flights", 8, TopicType.NORMAL)),
        ("a:1:NORMAL", TopicSpec("a", 1, TopicType.NORMAL)),
        ("a:1024:FIFO", TopicSpec("a", 1024, TopicType.FIFO)),
        ("a-b_c:2:DELAY", TopicSpec("a-b_c", 2, TopicType.DELAY)),
        ("%RETRY%g:2:transaction", TopicSpec("%RETRY%g", 2, TopicType.TRANSACTION)),
    ],
)
def test_a_topic_is_name_queues_and_type(text: str, topic: TopicSpec) -> None:
    assert parse_topic(text) == topic


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is no topic: expected NAME:QUEUES or NAME:QUEUES:TYPE"),
        ("orders", "'orders' is no topic"),
        ("orders:", "'orders:' is no topic"),
        ("orders:x", "'orders:x' is no topic"),
        ("orders:-1", "'orders:-1' is no topic"),
        ("orders:1:FIFO:x", "'orders:1:FIFO:x' is no topic"),
        ("orders:" + "9" * 5000, "is no topic"),
        ("orders:0", "topic 'orders' asks for 0 queues: expected 1 to 1024"),
        ("orders:1025", "topic 'orders' asks for 1025 queues: expected 1 to 1024"),
        (
            "orders:1:LITE",
            "topic 'orders' has the unknown type 'LITE': expected one of NORMAL, FIFO, DELAY, TRANSACTION",
        ),
        ("orders:1:", "has the unknown type ''"),
        (":1", "topic '' has an illegal name: The specified topic is blank."),
        ("a.b:1", "topic 'a.b' has an illegal name: The specified topic contains illegal characters"),
        ("t" * 128 + ":1", "longer than topic max length"),
        ("TBW102:1", "topic 'TBW102' has an illegal name: cannot access system topic"),
    ],
)
def test_a_bad_topic_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refusal:
        parse_topic(text)
    assert sentence in str(refusal.value)


def test_extensions_are_named() -> None:
    assert [parse_extensions(text) for text in ("columns", "none")] == [Extensions.COLUMNS, Extensions.NONE]
    with pytest.raises(SettingError, match="'' names no extensions: expected 'columns' or 'none'"):
        parse_extensions("")


def test_a_data_directory_has_a_name() -> None:
    assert parse_data_dir("./data") == "./data"
    for text in ("", "  ", "a\0b"):
        # Of an unset shell variable the empty name remains; it must not mean the working directory.
        with pytest.raises(SettingError, match="names no directory"):
            parse_data_dir(text)


def values(**changed: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "listen": Address("h", 1),
        "topic": (),
        "data_dir": None,
        "extensions": Extensions.COLUMNS,
    }
    defaults |= {"metrics_listen": None, "log_format": "text", "log_level": "info"}
    return {**defaults, **changed}


def test_a_configuration_is_made_of_parsed_values() -> None:
    topics = (parse_topic("a:1"), parse_topic("b:2:FIFO"))
    config = config_from(values(topic=topics, data_dir="d", extensions=Extensions.NONE))
    assert config == BrokerConfig(Address("h", 1), topics, "d", Extensions.NONE)
    assert config_from(values()) == BrokerConfig(Address("h", 1))
    watched = config_from(values(metrics_listen=Address("m", 2), log_format="json", log_level="debug"))
    assert (watched.metrics_listen, watched.log_format, watched.log_level) == (Address("m", 2), "json", "debug")


def test_logs_have_a_format_and_a_level() -> None:
    assert [parse_log_format(text) for text in ("text", "json")] == ["text", "json"]
    assert [parse_log_level(text) for text in ("debug", "WARNING")] == ["debug", "warning"]
    with pytest.raises(SettingError, match="'xml' is no log format: expected 'text' or 'json'"):
        parse_log_format("xml")
    with pytest.raises(SettingError, match="'loud' is no log level: expected one of debug, info, warning, error"):
        parse_log_level("loud")


@pytest.mark.parametrize("second", ["a:1", "a:2", "a:1:FIFO"])
def test_a_topic_is_named_once(second: str) -> None:
    with pytest.raises(SettingError, match="topic 'a' was given 2 times: name it once"):
        config_from(values(topic=(parse_topic("a:1"), parse_topic("b:1"), parse_topic(second))))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_declared_whole(setting: Any) -> None:
    assert setting.name.replace("-", "_") in values()
    assert setting.doc.endswith(".")
    assert setting.form.isupper() or ":" in setting.form
    if setting.default is not None:
        setting.parse(setting.default)
