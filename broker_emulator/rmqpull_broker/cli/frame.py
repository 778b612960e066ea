"""What the commands that call a broker have in common: ``--endpoints`` and ``--timeout``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from rmqpull_client.cli.values import ENDPOINTS, ENDPOINTS_DEFAULT, SECONDS

TIMEOUT_DEFAULT_S = 10.0

endpoints_option = click.option(
    "--endpoints",
    type=ENDPOINTS,
    metavar="HOST:PORT",
    default=ENDPOINTS_DEFAULT,
    show_default=True,
    envvar="RMQPULL_ENDPOINTS",
    show_envvar=True,
    help="Address of the broker.",
)


def connected(function: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--endpoints`` and ``--timeout`` to a command, and passes it a connection, which is closed at the end."""

    @endpoints_option
    @click.option(
        "--timeout",
        type=SECONDS,
        metavar="SECONDS",
        default=TIMEOUT_DEFAULT_S,
        show_default=True,
        envvar="RMQPULL_TIMEOUT",
        show_envvar=True,
        help="Timeout of each call.",
    )
    @functools.wraps(function)
    def with_connection(endpoints: str, timeout: float, **values: Any) -> None:
        from rmqpull_broker.cli.connection import Connection  # imports gRPC, which the help does not need

        with Connection(endpoints, timeout) as connection:
            function(connection, **values)

    return with_connection
