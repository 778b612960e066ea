"""The sources of settings: their priority, and their names in errors."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.config import SETTINGS
from rmqpull_broker.config_sources import name_variable, read_toml, resolve
from rmqpull_broker.config_values import Address, SettingError, TopicSpec, parse_topic
from rmqpull_broker.core.model import TopicType

FLAG, VARIABLE, FILE, DEFAULT = (
    Address("flag", 1),
    Address("variable", 2),
    Address("file", 3),
    Address("127.0.0.1", 8081),
)


def resolved(
    flags: dict[str, Any] | None = None, environment: dict[str, str] | None = None, toml: str = ""
) -> dict[str, Any]:
    return resolve(flags or {}, environment or {}, read_toml(toml, "broker.toml"), "broker.toml")


@pytest.mark.parametrize(
    ("flag", "in_environment", "in_file", "winner"),
    [
        (True, True, True, FLAG),
        (True, True, False, FLAG),
        (True, False, True, FLAG),
        (True, False, False, FLAG),
        (False, True, True, VARIABLE),
        (False, True, False, VARIABLE),
        (False, False, True, FILE),
        (False, False, False, DEFAULT),
    ],
)
def test_flags_win_over_variables_over_the_file_over_defaults(
    flag: bool, in_environment: bool, in_file: bool, winner: Address
) -> None:
    values = resolved(
        {"listen": FLAG} if flag else {},
        {"RMQPULL_BROKER_LISTEN": "variable:2"} if in_environment else {},
        'listen = "file:3"' if in_file else "",
    )
    assert values["listen"] == winner


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_flag_has_its_variable(setting: Any) -> None:
    assert name_variable(setting) == f"RMQPULL_BROKER_{setting.name.upper().replace('-', '_')}"
    assert resolved()[setting.attribute] == setting.default_value


@pytest.mark.parametrize(
    ("environment", "toml", "is_on"),
    [
        ({}, "", False),
        ({}, "remoting-vip = true", True),
        ({"RMQPULL_BROKER_REMOTING_VIP": "True"}, "", True),
        ({"RMQPULL_BROKER_REMOTING_VIP": "false"}, "remoting-vip = true", False),
    ],
)
def test_a_switch_is_true_or_false_in_a_variable_and_in_the_file(
    environment: dict[str, str], toml: str, is_on: bool
) -> None:
    assert resolved(environment=environment, toml=toml)["remoting_vip"] is is_on
    assert resolved({"remoting_vip": True}, environment, toml)["remoting_vip"] is True


def test_all_values_of_a_repeated_setting_come_from_one_source() -> None:
    toml = 'topic = ["a:1", "b:2:FIFO"]'
    environment = {"RMQPULL_BROKER_TOPIC": "c:3, d:4"}
    assert resolved(toml=toml)["topic"] == (parse_topic("a:1"), TopicSpec("b", 2, TopicType.FIFO))
    assert resolved(environment=environment, toml=toml)["topic"] == (parse_topic("c:3"), parse_topic("d:4"))
    assert resolved({"topic": (parse_topic("e:5"),)}, environment, toml)["topic"] == (parse_topic("e:5"),)


def test_properties_from_all_sources_are_merged() -> None:
    values = resolved(
        {"property": (("file_reserved_time", 1),)},
        {"RMQPULL_BROKER_PROPERTY": "fileReservedTime=2,regionId=variable"},
        '[properties]\nfileReservedTime = 3\nregionId = "file"\ntraceOn = false',
    )
    assert dict(values["property"]) == {"file_reserved_time": 1, "region_id": "variable", "trace_on": False}


@pytest.mark.parametrize(
    ("environment", "toml", "sentence"),
    [
        ({"RMQPULL_BROKER_LISTEN": "x"}, "", "RMQPULL_BROKER_LISTEN: 'x' is not an address"),
        ({"RMQPULL_BROKER_LISTEN": ""}, "", "RMQPULL_BROKER_LISTEN: '' is not an address"),
        ({"RMQPULL_BROKER_TOPIC": "a:1,b"}, "", "RMQPULL_BROKER_TOPIC: 'b' is not a topic"),
        ({"RMQPULL_BROKER_PROPERTY": "a=1"}, "", "RMQPULL_BROKER_PROPERTY: unknown property 'a'"),
        ({"RMQPULL_BROKER_DATADIR": "d"}, "", "RMQPULL_BROKER_DATADIR. Did you mean RMQPULL_BROKER_DATA_DIR?"),
        ({}, 'listen = "x"', "broker.toml: listen: 'x' is not an address"),
        ({}, "listen = 1.5", "broker.toml: listen is 1.5: use a string, a number, true or false"),
        ({}, "listen = [1]", "broker.toml: listen is [1]"),
        ({}, 'topic = "a:1"', "broker.toml: topic is 'a:1': use a list of strings"),
        ({}, 'topic = ["a"]', "broker.toml: topic: 'a' is not a topic"),
        ({}, 'data_dir = "d"', "broker.toml: unknown setting 'data_dir'. Did you mean 'data-dir'?"),
        ({}, "colour = 1", "broker.toml: unknown setting 'colour'"),
        ({}, 'property = ["a=1"]', "unknown setting 'property'. Did you mean 'properties'?"),
        ({}, "properties = 1", "broker.toml: properties must be a table"),
        ({}, "[listen]", "broker.toml: listen must not be a table"),
        ({}, "[properties]\nfileReserveTime = 1", "Did you mean 'fileReservedTime'?"),
        ({}, '[properties]\ntraceOn = "maybe"', "broker.toml: property traceOn is 'maybe': use true or false"),
        ({}, "[properties]\ntraceOn = 1.5", "broker.toml: properties.traceOn is 1.5"),
        ({}, "listen", "broker.toml is not TOML: "),
    ],
)
def test_an_error_names_its_source(environment: dict[str, str], toml: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refusal:
        resolved(environment=environment, toml=toml)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("name", ["RMQPULL_BROKER_PORT", "RMQPULL_BROKER_SERVICE_HOST", "RMQPULL_BROKER_PORT_8081_TCP"])
def test_variables_of_kubernetes_are_ignored(name: str) -> None:
    assert resolved(environment={name: "tcp://10.0.0.1:8081"}) == resolved()
