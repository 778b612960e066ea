"""What the client has as a setting is declared there alone: its default, its unit and its text."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields

import pytest

from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.options.source import OPTIONS, SourceOptions
from rmqpull_client import connection, flow
from rmqpull_client.connection import Connection, Credentials, Tls
from rmqpull_client.flow import Flow
from rmqpull_client.settings import Setting

NESTED = {"credentials", "tls"}
"""Fields of a connection that are made of several settings."""
FIELDS = [field for kind in (Connection, Credentials, Tls, Flow) for field in fields(kind) if field.name not in NESTED]
SETTINGS = {
    name.lower(): value
    for module in (connection, flow)
    for name, value in vars(module).items()
    if isinstance(value, Setting)
}
OWN_DEFAULTS = {"server_away_timeout_ms", "client_id"}
"""Settings whose option has a default of its own: one depends on the mode, the other on the driver."""


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_each_field_of_the_client_is_a_setting(field: Field[object]) -> None:
    assert field.default in (SETTINGS[field.name].default, MISSING), f"{field.name} has a default of its own"


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_one_option_with_its_default_unit_and_text(name: str) -> None:
    setting = SETTINGS[name]
    (option,) = [option for option in OPTIONS if setting.doc in option.doc]
    assert option.unit == setting.unit
    assert option.attribute in (name, f"tls_{name}", name.removesuffix("_ms"))
    if name not in OWN_DEFAULTS:
        assert option.doc.startswith(setting.doc)
        assert option.absent == setting.default
        assert option.default == (None if setting.default in (None, "") else str(setting.default))
        assert option.default is None or option.parse(option.default) == setting.default


def test_without_options_source_and_sink_connect_as_the_client_does() -> None:
    place = "127.0.0.1:8081"
    assert SourceOptions.from_options({"endpoints": place, "topic": "orders"}).connection == Connection(place)
    assert SinkOptions.from_options({"endpoints": place}, Mode.BATCH).connection == Connection(
        place, server_away_timeout_ms=30_000
    )
