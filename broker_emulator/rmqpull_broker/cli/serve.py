"""``rmqpull-broker serve``: reads the settings, opens the broker, and runs it until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from rmqpull_broker.cli.commands import OnceCommand
from rmqpull_broker.cli.values import Parsed
from rmqpull_broker.config import SETTINGS, BrokerConfig, SettingError, config_from
from rmqpull_broker.config_sources import CONFIG_VARIABLE, read_toml, resolve
from rmqpull_broker.lean_memory import share_one_heap
from rmqpull_proto.large_messages import use_memory_again


def _setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds one flag for each declared setting."""
    for setting in reversed(SETTINGS):
        default = "" if setting.default is None else f"  [default: {setting.default}]"
        option = click.option(
            f"--{setting.name}",
            type=Parsed(setting.form, setting.parse),
            metavar=setting.form,
            multiple=setting.is_repeated,
            help=setting.doc + default,
        )
        command = option(command)
    return command


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull-broker serve --listen 127.0.0.1:8081 --topic flights:8 --data-dir ./broker-data",
        "rmqpull-broker serve --config broker.toml --property fileReservedTime=48",
        "rmqpull-broker serve --brokers broker-a,broker-b --topic orders:4 --clock manual",
    ],
)
@click.option(
    "--config", metavar="FILE", envvar=CONFIG_VARIABLE, help="TOML file of settings by their names, and [properties]."
)
@_setting_options
def command(config: str | None, **values: Any) -> None:
    """Serve until SIGTERM or SIGINT.

    Prints one line on standard output when ready, as 'ready endpoints=127.0.0.1:8081 pid=4711'; logs go to standard
    error. Every flag can also be an environment variable (RMQPULL_BROKER_DATA_DIR for --data-dir, with commas where a
    flag may be repeated) or a line of the configuration file; flags win over variables, these over the file.
    """
    try:
        settings = _configured(config, values)
    except SettingError as error:
        raise click.UsageError(str(error)) from None
    _run(settings)


def _configured(file_name: str | None, values: dict[str, Any]) -> BrokerConfig:
    flags = {name: value for name, value in values.items() if value not in (None, ())}
    file = {} if file_name is None else read_toml(_text_of(file_name), file_name)
    return config_from(resolve(flags, os.environ, file, file_name or ""))


def _text_of(file_name: str) -> str:
    try:
        with open(file_name, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise SettingError(f"{file_name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingError(f"{file_name} is no TOML: it is not in UTF-8") from None


def _run(config: BrokerConfig) -> None:
    share_one_heap()
    use_memory_again()
    # Loaded only now: a wrong flag is answered without waiting for gRPC and Arrow.
    from rmqpull_broker.core.errors import BrokerError
    from rmqpull_broker.server.grpc.connections import PortUnavailable
    from rmqpull_broker.server.observability.logs import set_up_logs
    from rmqpull_broker.store.log.segments import CorruptLog

    set_up_logs(sys.stderr, config.log_format, config.log_level)
    try:
        asyncio.run(_serve(config))
    except PortUnavailable as error:
        _give_up(f"{error}; choose another with --listen, or port 0 for a free one")
    except (BrokerError, CorruptLog) as error:
        _give_up(str(error))
    except OSError as error:
        _give_up(f"the broker cannot run: {_reason(error)}")


def _give_up(sentence: str) -> NoReturn:
    raise click.ClickException(sentence) from None


async def _serve(config: BrokerConfig) -> None:
    from rmqpull_broker.assembly import new_topics

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
        is_idle = await server.stop(cancels=False)
    if not is_idle:
        _leave()


def _leave() -> NoReturn:
    """Ends the process at once, with code 0, since the log is closed and only calls are left that nobody waits for.

    To cancel ten thousand of them takes a second of a core. When the process is gone, the system closes their
    connections, which their callers take for UNAVAILABLE.
    """
    logging.shutdown()
    os._exit(0)


def _opened(config: BrokerConfig) -> Any:
    from rmqpull_broker.assembly import open_broker
    from rmqpull_broker.store.vfs import DirectoryInUse

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
