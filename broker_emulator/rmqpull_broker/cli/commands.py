"""The commands' frame: groups that load late, flags that are given once, help that ends with examples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from rmqpull_broker.cli.values import ENDPOINTS, ENDPOINTS_DEFAULT, SECONDS

TIMEOUT_DEFAULT_S = 10.0


class Example(click.Command):
    """A command whose help ends with examples; each of them is tried by the tests."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"  {example}\n")


class OnceCommand(Example):
    """A command whose flags may be given once, unless they are made to be repeated: click would take the last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in order:
            if isinstance(parameter, click.Option) and not parameter.multiple and order.count(parameter) > 1:
                raise click.UsageError(
                    f"{parameter.opts[0]} was given {order.count(parameter)} times: give it once", ctx
                )
        return super().parse_args(ctx, args)


class Group(Example, click.Group):
    """A group whose commands are of :class:`OnceCommand`."""

    command_class = OnceCommand


class LazyGroup(Group):
    """Loads the module of a command, named like it, when the command is called: ``--help`` must not wait for gRPC.

    ``summaries`` gives the commands in the order of the help, with the first sentence of each.
    """

    def __init__(self, *args: Any, summaries: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._summaries = summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._summaries:
            return None
        command: click.Command = import_module(f"rmqpull_broker.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._summaries:
            # What click looks for the nearest name in.
            self.commands = dict.fromkeys(self._summaries, click.Command(None))
        return super().resolve_command(ctx, args)


def flags(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, in the order of the help."""

    def with_flags(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return with_flags


endpoints_option = click.option(
    "--endpoints",
    type=ENDPOINTS,
    metavar="HOST:PORT",
    default=ENDPOINTS_DEFAULT,
    show_default=True,
    envvar="RMQPULL_ENDPOINTS",
    show_envvar=True,
    help="Where the broker listens.",
)


def connected(function: Callable[..., None]) -> Callable[..., None]:
    """Gives a command ``--endpoints`` and ``--timeout``, and hands it a connection that is closed in the end."""

    @endpoints_option
    @click.option(
        "--timeout",
        type=SECONDS,
        metavar="SECONDS",
        default=TIMEOUT_DEFAULT_S,
        show_default=True,
        envvar="RMQPULL_TIMEOUT",
        show_envvar=True,
        help="How long to wait for each answer.",
    )
    @functools.wraps(function)
    def with_connection(endpoints: str, timeout: float, **values: Any) -> None:
        from rmqpull_broker.cli.connection import Connection  # gRPC: help must not wait for it

        with Connection(endpoints, timeout) as connection:
            function(connection, **values)

    return with_connection


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of a table.")
