"""The command line: ``rmqpull-broker serve``. Every failure is one sentence on standard error and an exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

import rmqpull_broker
from rmqpull_broker.assembly import new_topics, open_broker
from rmqpull_broker.config import SETTINGS, BrokerConfig, Setting, SettingError, config_from
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.server.app import BrokerServer
from rmqpull_broker.server.listening import PortUnavailable
from rmqpull_broker.server.logs import set_up_logs
from rmqpull_broker.store.segments import CorruptLog
from rmqpull_broker.store.vfs import DirectoryInUse


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
    try:
        config = config_from(values)
        set_up_logs(sys.stderr, config.log_format, config.log_level)
        asyncio.run(_serve(config))
    except SettingError as error:
        raise click.UsageError(str(error)) from None
    except PortUnavailable as error:
        _give_up(f"{error}; choose another with --listen, or port 0 for a free one")
    except (BrokerError, CorruptLog) as error:
        _give_up(str(error))
    except OSError as error:
        _give_up(f"the broker cannot run: {_reason(error)}")


def _give_up(sentence: str) -> NoReturn:
    raise click.ClickException(sentence) from None


async def _serve(config: BrokerConfig) -> None:
    # While the log is replayed nothing is served and nothing written: there is nothing to wait for.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    server = _opened(config)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        port = await server.start(*config.listen, new_topics(config))
        metrics_port = await server.expose_metrics(*config.metrics_listen) if config.metrics_listen else None
        _print_ready(config, port, metrics_port)
        await stopped.wait()
    finally:
        await server.stop()


def _opened(config: BrokerConfig) -> BrokerServer:
    try:
        return open_broker(config)
    except DirectoryInUse as error:
        _give_up(f"the data directory {error}; stop that broker or choose another with --data-dir")
    except (FileExistsError, NotADirectoryError) as error:
        _give_up(f"the data directory {config.data_dir} cannot be used: {error.filename} is a file, or lies below one")
    except OSError as error:
        _give_up(f"the data directory {config.data_dir} cannot be used: {_reason(error)}")


def _reason(error: OSError) -> str:
    """What happened to which file, without the number."""
    what = error.strerror or str(error)
    return f"{what}: {error.filename}" if error.filename else what


def _print_ready(config: BrokerConfig, port: int, metrics_port: int | None) -> None:
    metrics = ""
    if config.metrics_listen is not None and metrics_port is not None:
        metrics = f" metrics={_address(config.metrics_listen.host, metrics_port)}"
    try:
        click.echo(f"ready endpoints={_address(config.listen.host, port)} pid={os.getpid()}{metrics}")
    except OSError as error:
        # What is still buffered must go somewhere, or Python complains once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _give_up(f"the ready line cannot be written to standard output: {error.strerror}")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
