"""``rmqpull-broker broker``: shows the brokers and their properties, and applies retention."""

from __future__ import annotations

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_client.cli.frame import Group, as_json
from rmqpull_client.cli.output import show_fields, show_json, show_table
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_COLUMNS = ("property", "value", "default", "unit")


@click.group(cls=Group, examples=["rmqpull-broker broker show"])
def command() -> None:
    """Show the brokers and their properties; apply retention."""


@command.command(examples=["rmqpull-broker broker show", "rmqpull-broker broker show --json"])
@as_json
@connected
def show(connection: Connection, as_json: bool) -> None:
    """Show the brokers, their version and their properties."""
    response = connection.admin("GetProperties", rpc.GetPropertiesRequest())
    properties = [
        {"property": entry.name, "value": entry.value, "default": entry.default_value, "unit": entry.unit}
        for entry in response.properties
    ]
    fields = {"endpoints": connection.endpoints, "version": response.version, "brokers": list(response.broker_names)}
    if as_json:
        show_json({**fields, "properties": {entry.name: entry.value for entry in response.properties}})
        return
    show_fields(fields)
    click.echo()
    show_table(properties, _COLUMNS)


@command.command(examples=["rmqpull-broker broker expire"])
@connected
def expire(connection: Connection) -> None:
    """Apply retention now: delete messages that are too old or too many."""
    response = connection.admin("ExpireNow", rpc.ExpireNowRequest())
    click.echo(f"deleted {response.expired_messages} messages", err=True)
