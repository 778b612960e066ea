"""Which servers a command calls: from its flags, from those before it, from the environment, or from a profile.

A profile is a table of a TOML file. Its keys are the flags without their dashes::

    [production]
    name-servers = "10.0.0.1:9876;10.0.0.2:9876"
    access-key = "reader"
    secret-key = "..."

Nobody but its owner may read the file.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rmqpull_client.cli.frame import flags
from rmqpull_client.cli.output import Refused, Unreachable
from rmqpull_client.cli.values import ADDRESSES, BROKER_ADDRESSES, SECONDS
from rmqpull_client.connection import Connection, Credentials, Tls
from rmqpull_client.errors import BrokerUnavailable, HandshakeFailed, RequestRefused, RmqpullError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TIMEOUT_DEFAULT_S = 10.0
AWAY_MS = 300_000
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def _option(name: str, kind: Any, metavar: str | None, text: str, **more: Any) -> dict[str, Any]:
    variable = f"RMQPULL_{name.upper().replace('-', '_')}"
    names = [f"--{name}"]
    return {"param_decls": names, "type": kind, "metavar": metavar, "help": text, "envvar": variable, **more}


_OPTIONS = (
    _option(
        "name-servers", ADDRESSES, "HOST:PORT;...", "Name servers of a cluster of Apache RocketMQ, or of a broker."
    ),
    _option("endpoints", ADDRESSES, "HOST:PORT;...", "Address of rmqpull-broker, for gRPC."),
    _option(
        "broker-addresses",
        BROKER_ADDRESSES,
        "BROKER=HOST:PORT;...",
        "Addresses of brokers, instead of those that name servers have.",
    ),
    _option("namespace", str, "NAME", "Namespace of all topics and groups."),
    _option("access-key", str, "KEY", "Access key, which signs requests together with the secret key."),
    _option("secret-key", str, "KEY", "Secret key. Better set the variable, or use a profile: others see flags."),
    _option("tls", bool, None, "Encrypt connections.", is_flag=True, default=None),
    _option("ca-file", str, "FILE", "PEM file with the authorities to trust. Implies --tls."),
    _option("cert-file", str, "FILE", "PEM file with a client certificate. Implies --tls."),
    _option("key-file", str, "FILE", "PEM file with the key of that certificate."),
    _option("timeout", SECONDS, "SECONDS", f"Timeout of each call [default: {TIMEOUT_DEFAULT_S:g}]."),
)
_PROFILE = _option("profile", str, "NAME", "Profile with values of these flags, from the file of profiles.")
_TYPES: Mapping[str, Any] = {option["param_decls"][0].removeprefix("--"): option["type"] for option in _OPTIONS}
_SERVERS = ("name_servers", "endpoints")
_FLAGS: Mapping[str, str] = {
    "nameServers": "--name-servers",
    "endpoints": "--endpoints",
    "brokerAddresses": "--broker-addresses",
    "namespace": "--namespace",
    "accessKey": "--access-key",
    "secretKey": "--secret-key",
    "tlsEnabled": "--tls",
    "tlsCaFile": "--ca-file",
    "tlsCertFile": "--cert-file",
    "tlsKeyFile": "--key-file",
    "requestTimeoutMs": "--timeout",
}
"""Flags by the options of Spark that mean the same."""
_PHRASES = {
    "Then set option tlsEnabled to true.": "Then give --tls.",
    "options filterExpression and filterType": "--tag or --sql",
    "options serverAwayTimeoutMs and requestRetries allow": "this command allows",
    "the request timeout and the retries allow (options requestTimeoutMs and requestRetries)": "--timeout allows",
}
"""Other words of errors that name options of Spark, and what they are here."""
_NAMES = "|".join(_FLAGS)
_NAMED = re.compile(rf"\b[Oo]ptions? ({_NAMES})\b(?: and ({_NAMES})\b)?")


def add_server_options(command: Any, *, hidden: bool = False) -> Any:
    """Adds the options to a command or group."""
    for option in reversed((*_OPTIONS, _PROFILE)):
        chosen = {**option, "hidden": True} if hidden else {**option, "show_envvar": True}
        command = click.option(*chosen.pop("param_decls"), **chosen)(command)
    return command


def connected(function: Callable[..., None], away_ms: int = 0) -> Callable[..., None]:
    """Passes a command a client as its first argument, and turns the client's errors into ends of the command.

    A server that has answered before may be away for ``away_ms``. The context's ``obj`` is the connection.
    """

    @functools.wraps(function)
    def with_client(ctx: click.Context, **values: Any) -> None:
        for name in _list_names():
            del values[name]  # read from the context
        connection = replace(find_connection(ctx), server_away_timeout_ms=away_ms)
        ctx.obj = connection
        from rmqpull_client.transports.choice import connect  # the help does not need it

        try:
            function(connect(connection), **values)
        except RmqpullError as error:
            raise make_click_error(error) from None

    return add_server_options(click.pass_context(with_client), hidden=True)  # type: ignore[no-any-return]


def connected_patiently(function: Callable[..., None]) -> Callable[..., None]:
    """Does as :func:`connected` for a command that runs for long: servers may be started again meanwhile."""
    return connected(function, AWAY_MS)


_TARGET_OPTIONS = (
    click.option("--to-name-servers", type=ADDRESSES, metavar="HOST:PORT;...", help="Name servers of another cluster."),
    click.option("--to-endpoints", type=ADDRESSES, metavar="HOST:PORT;...", help="Address of another rmqpull-broker."),
    click.option(
        "--to-profile",
        metavar="NAME",
        help="Profile of the other cluster, such as one with its access key, TLS and namespace.",
    ),
)
target_options = flags(*_TARGET_OPTIONS)


def find_target(
    connection: Connection, to_name_servers: str | None, to_endpoints: str | None, to_profile: str | None
) -> Connection:
    """Returns the connection that ``target_options`` name; without one, that of the source. Raises UsageError.

    It has the source's timeout, unless its profile has one.
    """
    if to_name_servers and to_endpoints:
        raise click.UsageError("give only one of --to-name-servers and --to-endpoints")
    sources: list[Mapping[str, Any]] = [{"name_servers": to_name_servers, "endpoints": to_endpoints}]
    if to_profile is not None:
        sources.append(read_profile(find_profiles_file(os.environ), to_profile))
    elif to_name_servers is None and to_endpoints is None:
        return connection
    if not any(source.get(name) for source in sources for name in _SERVERS):
        raise click.UsageError(
            f"profile {to_profile} names no server: give --to-name-servers or --to-endpoints too, or add one to it"
        )
    sources.append({"timeout": connection.request_timeout_ms / 1000})
    return replace(make_connection(sources), server_away_timeout_ms=connection.server_away_timeout_ms)


def make_click_error(error: RmqpullError, more: str = "") -> click.ClickException:
    """Returns how a command ends with an error of the client, whose text names Spark's options. ``more`` follows it."""
    text = str(error)
    for words, shown in _PHRASES.items():
        text = text.replace(words, shown)
    text = _NAMED.sub(lambda found: " and ".join(_FLAGS[name] for name in found.groups() if name), text)
    text = f"{text.removesuffix('.')}{more}" if more else text
    if isinstance(error, (BrokerUnavailable, HandshakeFailed)):
        return Unreachable(text)
    return Refused(text, error.code if isinstance(error, RequestRefused) else "")


def _list_names() -> list[str]:
    return [name.replace("-", "_") for name in (*_TYPES, "profile")]


def find_connection(ctx: click.Context) -> Connection:
    """Returns the connection that the command line of a context names. Raises UsageError."""
    return make_connection(_list_sources(ctx))


def _list_sources(ctx: click.Context) -> list[Mapping[str, Any]]:
    """Returns what is given, the nearest source first: flags of the command, flags before it, variables, a profile,
    and what the program has by default."""
    root = ctx.find_root()
    sources: list[Mapping[str, Any]] = [
        {name: own.params[name] for name in _list_names() if own.get_parameter_source(name) is source}
        for source in (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)
        for own in (ctx, root)
    ]
    profile = next((source["profile"] for source in sources if source.get("profile")), None)
    if profile is not None:
        sources.append(read_profile(find_profiles_file(os.environ), profile))
    return [*sources, getattr(root.command, "default_servers", {})]


def make_connection(sources: Sequence[Mapping[str, Any]]) -> Connection:
    """Returns the connection that flags, variables and a profile describe, the nearest source first.

    The nearest source that names a server decides between name servers and endpoints. Raises UsageError.
    """
    naming = next((source for source in sources if any(source.get(name) for name in _SERVERS)), None)
    if naming is None:
        raise click.UsageError(
            "no server is named: give --name-servers or --endpoints, or set RMQPULL_NAME_SERVERS or RMQPULL_ENDPOINTS"
        )
    if all(naming.get(name) for name in _SERVERS):
        raise click.UsageError("give only one of --name-servers and --endpoints")
    values = {
        name: next((source[name] for source in sources if source.get(name) is not None), None)
        for name in _list_names()
        if name not in _SERVERS
    }
    if (values["access_key"] is None) is not (values["secret_key"] is None):
        raise click.UsageError("give both --access-key and --secret-key, or none of them")
    if values["broker_addresses"] and not naming.get("name_servers"):
        raise click.UsageError("--broker-addresses needs --name-servers")
    files = [values[name] for name in ("ca_file", "cert_file", "key_file")]
    if (files[1] is None) is not (files[2] is None):
        raise click.UsageError("give both --cert-file and --key-file, or none of them")
    keys = values["access_key"], values["secret_key"]
    return Connection(
        name_servers=naming.get("name_servers") or "",
        endpoints=naming.get("endpoints") or "",
        broker_addresses=values["broker_addresses"] or "",
        namespace=values["namespace"] or "",
        credentials=None if keys[0] is None else Credentials(*map(str, keys)),
        tls=Tls(*files) if values["tls"] or any(files) else None,
        request_timeout_ms=round(1000 * (values["timeout"] or TIMEOUT_DEFAULT_S)),
        client_id="rmqpull",
    )


def find_profiles_file(environment: Mapping[str, str]) -> Path:
    """Returns the path of the file of profiles: RMQPULL_PROFILES, or ``rmqpull/profiles.toml`` among the user's
    configuration files."""
    if given := environment.get("RMQPULL_PROFILES"):
        return Path(given)
    folder = environment.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "rmqpull" / "profiles.toml"


def read_profile(file: Path, name: str) -> dict[str, Any]:
    """Reads a profile. Raises UsageError for a file that cannot be used, and for an unknown profile, key or value."""
    try:
        with open(file, "rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if mode & _OTHERS:
                raise click.UsageError(
                    f"others can read {file} (its mode is {mode:o}), which may have keys: run chmod 600 on it"
                )
            profiles = tomllib.load(opened)
    except OSError as error:
        raise click.UsageError(f"profile {name} cannot be read from {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file} is not TOML: {error}") from None
    profile = profiles.get(name)
    if not isinstance(profile, dict):
        known = ", ".join(key for key, value in profiles.items() if isinstance(value, dict)) or "none"
        raise click.UsageError(f"{file} has no profile {name}; it has: {known}")
    return {
        key.replace("-", "_"): _check(f"key {key} of profile {name} in {file}", key, profile[key]) for key in profile
    }


def _check(where: str, key: str, value: Any) -> Any:
    if key not in _TYPES:
        near = difflib.get_close_matches(key, _TYPES, 1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(_TYPES)}"
        raise click.UsageError(f"{where} is unknown: {hint}")
    kind = _TYPES[key]
    expected = kind if kind in (bool, str) else (str, int, float)
    if not isinstance(value, expected) or isinstance(value, bool) is not (kind is bool):
        raise click.UsageError(f"{where}: it is of the wrong kind")
    try:
        return value if kind in (bool, str) else kind.convert(str(value), None, None)
    except click.BadParameter as error:
        raise click.UsageError(f"{where}: {error.message}") from None
