"""``rmqpull-broker client``: lists connected clients."""

from __future__ import annotations

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_broker.cli.rows import make_client_row
from rmqpull_client.cli.frame import Group, as_json
from rmqpull_client.cli.output import show
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_COLUMNS = ("clientId", "type", "language", "version", "groups", "lastHeartbeat")


@click.group(cls=Group, examples=["rmqpull-broker client list"])
def command() -> None:
    """List connected clients."""


@command.command("list", examples=["rmqpull-broker client list", "rmqpull-broker client list --group readers --json"])
@click.option("--group", default="", metavar="GROUP", help="Only members of this group.")
@as_json
@connected
def list_clients(connection: Connection, group: str, as_json: bool) -> None:
    """List the clients whose heartbeats have not expired."""
    response = connection.admin("ListClients", rpc.ListClientsRequest(group=group))
    rows = [make_client_row(client) for client in response.clients]
    show(rows, _COLUMNS, as_json=as_json, nothing="no client is connected")
