"""The frame of all commands: lazy loading, flags that may be given once, examples in the help, shared options."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click

PROGRAM = "rmqpull"


class Example(click.Command):
    """A command whose help ends with examples. Tests run each of them."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        for parameter in () if ctx.resilient_parsing else self.get_params(ctx):
            _check_is_text(ctx, parameter)
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # rmqpull-broker has commands of rmqpull.
        program = getattr(ctx.find_root().command, "program", PROGRAM)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"  {re.sub(rf'{PROGRAM} ', f'{program} ', example)}\n")


def _list_values(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _check_is_text(ctx: click.Context, parameter: click.Parameter) -> None:
    """Refuses text that is not UTF-8, which no server would understand. What may be any bytes is bytes already."""
    for each in _list_values(ctx.params.get(parameter.name or "")):
        try:
            str(each).encode()
        except UnicodeEncodeError:
            raise click.BadParameter("it is not UTF-8", ctx, parameter) from None


def _check_is_given(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    """Refuses an empty argument or path, such as that of a variable of the shell that is not set."""
    is_needed = isinstance(parameter, click.Argument) or isinstance(parameter.type, click.Path)
    if is_needed and "" in _list_values(value):
        raise click.BadParameter("it is empty", ctx, parameter)


class OnceCommand(Example):
    """A command that refuses a repeated flag unless the flag allows it; click would take the last value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in order:
            _check_is_given(ctx, parameter, given.get(parameter.name or ""))
            if isinstance(parameter, click.Option) and not parameter.multiple and order.count(parameter) > 1:
                raise click.UsageError(
                    f"{parameter.opts[0]} is given {order.count(parameter)} times: give it once", ctx
                )
        return super().parse_args(ctx, args)


class Group(Example, click.Group):
    """A group of commands of :class:`OnceCommand`."""

    command_class = OnceCommand


_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


class LazyGroup(Group):
    """A group that imports the module of a command only when the command is called, so that ``--help`` is fast.

    ``summaries`` has the commands in the order of the help, with one sentence for each. ``package`` has their modules.
    ``program`` is the name that users type, and ``default_servers`` are the flags that stand for servers if nobody
    names one.
    """

    def __init__(
        self,
        *args: Any,
        summaries: Mapping[str, str],
        package: str,
        program: str = PROGRAM,
        default_servers: Mapping[str, str] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._summaries = summaries
        self._package = package
        self.program = program
        self.default_servers = default_servers

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Only standard output has no name. click ends quietly when its reader has gone.
            if error.errno not in _FULL or error.filename is not None:
                raise
            click.echo(f"Error: cannot write the output: {error.strerror}", err=True)
            sys.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._summaries:
            return None
        command: click.Command = import_module(f"{self._package}.{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._summaries:
            # click searches these for a similar name.
            self.commands = dict.fromkeys(self._summaries, click.Command(None))
        return super().resolve_command(ctx, args)


def flags(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Combines options into one decorator, in the order of the help."""

    def with_flags(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return with_flags


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
