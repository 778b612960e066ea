"""``rmqpull-broker health``: reports with its exit code whether the broker serves."""

from __future__ import annotations

import click
import grpc

from rmqpull_broker.cli.frame import endpoints_option
from rmqpull_client.cli.frame import OnceCommand
from rmqpull_client.cli.values import SECONDS

_CHECK = "/grpc.health.v1.Health/Check"
# A HealthCheckResponse with SERVING. Importing the library for it would be slow.
_SERVING = b"\x08\x01"


@click.command(
    cls=OnceCommand,
    examples=["rmqpull-broker health", "rmqpull-broker health --endpoints 127.0.0.1:8081 --timeout 2 --quiet"],
)
@endpoints_option
@click.option(
    "--timeout", type=SECONDS, metavar="SECONDS", default=5.0, show_default=True, help="Timeout of the check."
)
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(endpoints: str, timeout: float, quiet: bool) -> None:
    """Exit with 0 if the broker serves, otherwise with 1."""
    problem = _find_problem(endpoints, timeout)
    if not quiet:
        click.echo(f"{endpoints}: {problem or 'serving'}", err=problem is not None)
    raise SystemExit(0 if problem is None else 1)


def _find_problem(endpoints: str, timeout_s: float) -> str | None:
    with grpc.insecure_channel(endpoints, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            response = channel.unary_unary(_CHECK, bytes, bytes)(b"", timeout=timeout_s)
        except grpc.RpcError as error:
            code = error.code()
            if code is grpc.StatusCode.UNIMPLEMENTED:
                return None  # a server without the health service
            return f"not serving ({code.name})"
    return None if response == _SERVING else "not serving"
