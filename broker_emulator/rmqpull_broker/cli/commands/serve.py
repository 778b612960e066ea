"""``rmqpull-broker serve``: reads the settings, opens the broker, and runs it until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import click

from rmqpull_broker.config import SETTINGS, BrokerConfig, config_from
from rmqpull_broker.config_sources import CONFIG_VARIABLE, read_toml, resolve
from rmqpull_broker.config_values import SettingError
from rmqpull_broker.core.admin.admin_peers import LOOPBACK_PEERS
from rmqpull_broker.lean import (
    LOOK_S,
    allow_many_connections,
    find_freed_memory,
    hand_over_often,
    keep_cycle_searches_short,
    share_one_heap,
)
from rmqpull_broker.server.addresses import PortUnavailable, join_address
from rmqpull_client.cli.frame import OnceCommand
from rmqpull_client.cli.values import Parsed
from rmqpull_proto.large_messages import reuse_memory

_logger = logging.getLogger(__name__)


def _setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds one flag per declared setting."""
    for setting in reversed(SETTINGS):
        default = "" if setting.default is None else f"  [default: {setting.default}]"
        options: dict[str, Any] = {"is_flag": True, "default": None}
        if not setting.is_switch:
            options = {"type": Parsed(setting.form, setting.parse), "metavar": setting.form}
        option = click.option(f"--{setting.name}", multiple=setting.is_repeated, help=setting.doc + default, **options)
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
    "--config",
    metavar="FILE",
    envvar=CONFIG_VARIABLE,
    help="TOML file with settings by name, and a table [properties].",
)
@_setting_options
def command(config: str | None, **values: Any) -> None:
    """Serve until SIGTERM or SIGINT.

    When ready, prints one line to standard output: ready endpoints=127.0.0.1:8081 pid=4711. Logs go to standard error.

    A setting can be a flag, an environment variable or a line of the configuration file, in this order of priority. The
    variable of --data-dir is RMQPULL_BROKER_DATA_DIR. In a variable, separate the values of a repeated flag by commas.
    """
    try:
        settings = _read_config(config, values)
    except SettingError as error:
        raise click.UsageError(str(error)) from None
    _run(settings)


def _read_config(file_name: str | None, values: dict[str, Any]) -> BrokerConfig:
    flags = {name: value for name, value in values.items() if value not in (None, ())}
    file = {} if file_name is None else read_toml(_read_text(file_name), file_name)
    return config_from(resolve(flags, os.environ, file, file_name or ""))


def _read_text(file_name: str) -> str:
    try:
        with open(file_name, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise SettingError(f"cannot read {file_name}: {error.strerror}") from None
    except ValueError:
        raise SettingError(f"{file_name} is not TOML: it is not in UTF-8") from None


def _run(config: BrokerConfig) -> None:
    share_one_heap()
    reuse_memory()
    allow_many_connections()
    keep_cycle_searches_short()
    hand_over_often()
    # Imported here, so that the error for a wrong flag does not wait for gRPC and Arrow.
    from rmqpull_broker.core.errors import BrokerError
    from rmqpull_broker.server.observability.logs import set_up_logs
    from rmqpull_broker.store.log.segments import CorruptLog

    set_up_logs(sys.stderr, config.log_format, config.log_level)
    try:
        asyncio.run(_serve(config))
    except PortUnavailable as error:
        _fail(f"{error}; set another address with {error.setting}, or port 0 for a free one")
    except (BrokerError, CorruptLog, SettingError) as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"the broker failed: {_reason(error)}")


def _fail(sentence: str) -> NoReturn:
    raise click.ClickException(sentence) from None


async def _serve(config: BrokerConfig) -> None:
    from rmqpull_broker.assembly import make_remoting_address, make_tls_address, make_topics

    # During the replay of the log nothing is served and nothing is written, so the process can exit at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    remoting, tls = make_remoting_address(config), make_tls_address(config)
    server = _open(config)
    gc.freeze()  # otherwise the first collection would visit all that was read, while clients wait
    returning = asyncio.create_task(_return_memory(server.forget))
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        port = await server.start(*config.listen, make_topics(config), remoting, tls)
        metrics_port = await server.expose_metrics(*config.metrics_listen) if config.metrics_listen else None
        others = {"remoting": ",".join(server.remoting_addresses), "tls": server.tls_endpoints}
        if config.metrics_listen is not None and metrics_port is not None:
            others["metrics"] = join_address(config.metrics_listen.host, metrics_port)
        _tell_access(config)
        _print_ready(join_address(config.listen.host, port), others)
        await stopped.wait()
    finally:
        returning.cancel()
        is_idle = await server.stop(cancels=False)
    if not is_idle:
        _leave()


async def _return_memory(forget: Callable[[], object]) -> None:
    freed = find_freed_memory(forget)
    while freed is not None:
        await asyncio.sleep(LOOK_S)
        freed.look()


def _leave() -> NoReturn:
    """Ends the process at once with code 0. The log is closed; only calls in flight remain.

    Cancelling ten thousand calls would take a second of CPU time. Instead, the system closes their connections, and
    gRPC callers get UNAVAILABLE.
    """
    logging.shutdown()
    os._exit(0)


def _open(config: BrokerConfig) -> Any:
    from rmqpull_broker.assembly import open_broker
    from rmqpull_broker.store.vfs import DirectoryInUse

    try:
        return open_broker(config)
    except DirectoryInUse as error:
        _fail(f"the data directory {error}; stop that broker, or set another --data-dir")
    except (FileExistsError, NotADirectoryError) as error:
        _fail(f"cannot use the data directory {config.data_dir}: {error.filename} is a file, or is in one")
    except OSError as error:
        _fail(f"cannot use the data directory {config.data_dir}: {_reason(error)}")


def _reason(error: OSError) -> str:
    """The text of an error with its file, without the error number."""
    what = error.strerror or str(error)
    return f"{what}: {error.filename}" if error.filename else what


def _tell_access(config: BrokerConfig) -> None:
    """Logs who can do what, unless only this machine reaches the broker."""
    served = (config.listen, *config.remoting, *((config.tls_listen,) if config.tls_listen else ()))
    hosts = dict.fromkeys(host for host, _ in served if host != "localhost" and not LOOPBACK_PEERS.allows(host))
    if hosts:
        _logger.info(
            "anyone who can reach %s can read, send, consume, and create topics and groups; changing or deleting what "
            "exists, properties, faults and the clock is allowed for %s (--admin-from): see docs/access.md",
            ", ".join(hosts),
            config.admin_from.describe(),
        )


def _print_ready(endpoints: str, others: Mapping[str, str | None]) -> None:
    listed = "".join(f" {name}={address}" for name, address in others.items() if address)
    try:
        click.echo(f"ready endpoints={endpoints} pid={os.getpid()}{listed}")
    except OSError as error:
        # The buffered text must go somewhere, or Python reports a second error at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"cannot write the ready line to standard output: {error.strerror}")
