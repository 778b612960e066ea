"""The command line: ``rmqpull-broker serve``. Every failure is one sentence on standard error and an exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

import rmqpull_broker
from rmqpull_broker.assembly import new_topics, open_broker
from rmqpull_broker.config import SETTINGS, BrokerConfig, Setting, SettingError, config_from
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.server.app import PortUnavailable
from rmqpull_broker.store.commit_log import CorruptLog


class OnceCommand(click.Command):
    """A command whose flags may be given once, unless they are made to be repeated: click would take the last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in order:
            if isinstance(parameter, click.Option) and not parameter.multiple and order.count(parameter) > 1:
                raise click.UsageError(
                    f"{parameter.opts[0]} was given {order.count(parameter)} times: give it once", ctx
                )
        return super().parse_args(ctx, args)


class _Parsed(click.ParamType[Any]):
    """A value that a setting's own parser reads."""

    def __init__(self, setting: Setting) -> None:
        self.name = setting.form
        self._parse = setting.parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except SettingError as error:
            self.fail(str(error), param, ctx)


def _setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds one flag for each declared setting."""
    for setting in reversed(SETTINGS):
        option = click.option(
            f"--{setting.name}",
            type=_Parsed(setting),
            metavar=setting.form,
            default=setting.default if not setting.is_repeated else None,
            show_default=setting.default is not None,
            multiple=setting.is_repeated,
            help=setting.doc,
        )
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(rmqpull_broker.__version__, prog_name="rmqpull-broker")
def main() -> None:
    """A RocketMQ broker in one process, for tests, demos and development."""


@main.command(
    cls=OnceCommand,
    epilog="Example: rmqpull-broker serve --listen 127.0.0.1:8081 --topic flights:8 --data-dir ./broker-data",
)
@_setting_options
def serve(**values: Any) -> None:
    """Serve until SIGTERM or SIGINT.

    Prints one line on standard output when ready, as 'ready endpoints=127.0.0.1:8081 pid=4711'; logs go to standard
    error.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        config = config_from(values)
        asyncio.run(_serve(config))
    except SettingError as error:
        raise click.UsageError(str(error)) from None
    except PortUnavailable as error:
        raise click.ClickException(
            f"cannot listen on {error}: the port is in use or the address is not this machine's; "
            "choose another with --listen, or port 0 for a free one"
        ) from None
    except (BrokerError, CorruptLog) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"the data directory {config.data_dir} cannot be used: {error}") from None


async def _serve(config: BrokerConfig) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = open_broker(config)
    try:
        port = await server.start(*config.listen, new_topics(config))
    except BaseException:
        await server.stop()
        raise
    _print_ready(config, port)
    await stopped.wait()
    await server.stop()


def _print_ready(config: BrokerConfig, port: int) -> None:
    host = f"[{config.listen.host}]" if ":" in config.listen.host else config.listen.host
    click.echo(f"ready endpoints={host}:{port} pid={os.getpid()}")
