"""The broker's settings. Each is declared once; the command line and the manual's table are generated from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rmqpull_broker.config_values import (
    BROKER_NAMES,
    EXTENSIONS,
    SYSTEM_CLOCK,
    TLS_MODES,
    Address,
    ClockSpec,
    SettingError,
    TopicSpec,
    parse_address,
    parse_addresses,
    parse_admin_from,
    parse_advertised,
    parse_brokers,
    parse_clock,
    parse_data_dir,
    parse_extensions,
    parse_file,
    parse_log_format,
    parse_log_level,
    parse_property,
    parse_size,
    parse_switch,
    parse_tls_mode,
    parse_topic,
)
from rmqpull_broker.config_vip import check_vip_ports
from rmqpull_broker.core.admin.admin_peers import LOOPBACK_PEERS, AdminPeers
from rmqpull_broker.core.properties import BrokerProperties


@dataclass(frozen=True)
class Setting:
    """One setting: the name of its flag without dashes, the form of its value, if it has one, and its description."""

    name: str
    form: str
    default: str | None
    doc: str
    parse: Callable[[str], Any] = str
    is_repeated: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether its flag takes no value. In a variable or the file, it is true or false."""
        return not self.form

    @property
    def attribute(self) -> str:
        """The name of its value in Python."""
        return self.name.replace("-", "_")

    @property
    def default_value(self) -> Any:
        """Its value when no source gives one."""
        if self.is_repeated:
            return ()
        return None if self.default is None else self.parse(self.default)


PROPERTY = Setting(
    "property",
    "NAME=VALUE",
    None,
    "A property of Apache's broker, by its own name; may be repeated.",
    parse_property,
    is_repeated=True,
)

SETTINGS = (
    Setting(
        "listen",
        "HOST:PORT",
        "127.0.0.1:8081",
        "Address to listen on. Port 0 picks a free port, which the ready line shows.",
        parse_address,
    ),
    Setting(
        "remoting",
        "HOST:PORT[,…]",
        None,
        "Address for clients of the remoting protocol: name server and first broker. Further brokers have the next "
        "ports, or addresses of their own. Port 0 picks free ports, which the ready line shows.",
        parse_addresses,
    ),
    Setting(
        "remoting-advertised",
        "HOST:PORT,…",
        None,
        "Addresses that routes give to clients of the remoting protocol, one for each broker, such as mapped ports.",
        parse_advertised,
    ),
    Setting(
        "remoting-vip",
        "",
        "false",
        "Also listen two ports below each advertised port: Java clients up to 4.5.0 send there (VIP channel).",
        parse_switch,
    ),
    Setting(
        "tls-listen",
        "HOST:PORT",
        None,
        "Address for gRPC clients that use TLS, as Java clients do by default. Without --tls-certificate, the broker "
        "makes its own certificate, which needs rmqpull[tls]. Port 0 picks a free port, which the ready line shows.",
        parse_address,
    ),
    Setting(
        "tls-certificate",
        "FILE",
        None,
        "PEM file with the certificate chain for TLS on the port of --tls-listen, and on those of --remoting.",
        parse_file,
    ),
    Setting("tls-key", "FILE", None, "PEM file with the private key of that certificate, not encrypted.", parse_file),
    Setting(
        "tls-client-ca",
        "FILE",
        None,
        "PEM file with certificate authorities. With it, a TLS client needs a certificate signed by one of them.",
        parse_file,
    ),
    Setting(
        "remoting-tls-mode",
        "MODE",
        TLS_MODES[0],
        "With a certificate: 'permissive' also serves connections without TLS on the ports of --remoting, 'enforcing' "
        "does not.",
        parse_tls_mode,
    ),
    Setting(
        "topic",
        "NAME:QUEUES[:TYPE]",
        None,
        "Topic to create if it does not exist; may be repeated. TYPE: NORMAL (default), FIFO, DELAY, TRANSACTION or "
        "PRIORITY.",
        parse_topic,
        is_repeated=True,
    ),
    Setting(
        "data-dir",
        "DIR",
        None,
        "Data directory, created if it does not exist. Without it, the broker stores messages in memory only.",
        parse_data_dir,
    ),
    Setting(
        "extensions",
        "NAMES",
        ",".join(EXTENSIONS),
        "Services of rmqpull.v1 to add to apache.rocketmq.v2. With 'none', only the standard protocol is served.",
        parse_extensions,
    ),
    Setting(
        "admin-from",
        "ADDRESSES",
        "loopback",
        "Who can change and delete what exists, over both protocols (access.md): addresses or networks of peers, such "
        "as 10.0.0.0/8, separated by commas; 'loopback', 'all' or 'none'.",
        parse_admin_from,
    ),
    Setting(
        "brokers",
        "NAMES",
        ",".join(BROKER_NAMES),
        "Names of the logical brokers in this process, separated by commas. Each has its own queues.",
        parse_brokers,
    ),
    Setting(
        "clock",
        "CLOCK",
        "system",
        "The broker's clock. 'manual' or 'manual:TIME' (ISO 8601) moves only by 'clock advance', or by a test.",
        parse_clock,
    ),
    Setting(
        "retention-bytes",
        "SIZE",
        None,
        "Max size of the commit log, such as 10G; the oldest segments above it are deleted. Property retentionBytes.",
        parse_size,
    ),
    Setting(
        "metrics-listen",
        "HOST:PORT",
        None,
        "Address of the page /metrics for Prometheus. Port 0 picks a free port, which the ready line shows.",
        parse_address,
    ),
    Setting(
        "log-format",
        "FORMAT",
        "text",
        "Format of the log on standard error: 'text', or 'json' with one object per line.",
        parse_log_format,
    ),
    Setting(
        "log-level",
        "LEVEL",
        "info",
        "Minimum level of the log: 'debug' (logs every call), 'info', 'warning' or 'error'.",
        parse_log_level,
    ),
    PROPERTY,
)


@dataclass(frozen=True)
class TlsFiles:
    """The TLS files: a certificate chain, its key, and the authorities that sign client certificates."""

    certificate: str
    key: str
    client_ca: str | None = None


@dataclass(frozen=True)
class BrokerConfig:
    """The configuration of a broker."""

    listen: Address
    topics: Sequence[TopicSpec] = ()
    data_dir: str | None = None
    extensions: frozenset[str] = frozenset(EXTENSIONS)
    broker_names: Sequence[str] = BROKER_NAMES
    clock: ClockSpec = SYSTEM_CLOCK
    properties: BrokerProperties = field(default_factory=BrokerProperties)
    remoting: Sequence[Address] = ()
    remoting_advertised: Sequence[Address] = ()
    remoting_vip: bool = False
    remoting_needs_tls: bool = False
    tls_listen: Address | None = None
    tls: TlsFiles | None = None
    metrics_listen: Address | None = None
    log_format: str = "text"
    log_level: str = "info"
    admin_from: AdminPeers = LOOPBACK_PEERS


def config_from(values: Mapping[str, Any]) -> BrokerConfig:
    """Makes the configuration from parsed values by attribute name. Raises SettingError if they do not fit."""
    topics: Sequence[TopicSpec] = values["topic"]
    names = [topic.name for topic in topics]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(f"topic {name!r} is given {names.count(name)} times: give it once")
    _check_addresses(values)
    _check_tls(values)
    return BrokerConfig(
        listen=values["listen"],
        remoting=values["remoting"] or (),
        remoting_advertised=values["remoting_advertised"] or (),
        remoting_vip=values["remoting_vip"],
        remoting_needs_tls=values["remoting_tls_mode"] == TLS_MODES[1],
        tls_listen=values["tls_listen"],
        tls=_tls_files_from(values),
        topics=topics,
        data_dir=values["data_dir"],
        extensions=values["extensions"],
        admin_from=values["admin_from"],
        broker_names=values["brokers"],
        clock=values["clock"],
        properties=_properties_from(values),
        metrics_listen=values["metrics_listen"],
        log_format=values["log_format"],
        log_level=values["log_level"],
    )


def _check_addresses(values: Mapping[str, Any]) -> None:
    """Raises SettingError for addresses of the remoting protocol that do not fit the brokers."""
    advertised, brokers = values["remoting_advertised"] or (), values["brokers"]
    for name, given in (("remoting", values["remoting"] or ()), ("remoting-advertised", advertised)):
        if len(given) not in (0, len(brokers)) and (name, len(given)) != ("remoting", 1):
            raise SettingError(
                f"{name} has {len(given)} addresses for {len(brokers)} brokers: give one for each broker"
            )
    if advertised and values["remoting"] is None:
        raise SettingError("remoting-advertised has no effect without remoting: set that too")
    if values["remoting_vip"]:
        if values["remoting"] is None:
            raise SettingError("remoting-vip has no effect without remoting: set that too")
        settings = (setting for setting in SETTINGS if setting.parse is parse_address and values[setting.attribute])
        others = {setting.name: values[setting.attribute] for setting in settings}
        check_vip_ports(values["remoting"], advertised, brokers, others)


def _check_tls(values: Mapping[str, Any]) -> None:
    """Raises SettingError for TLS settings that contradict each other."""
    certificate, key, remoting = values["tls_certificate"], values["tls_key"], values["remoting"]
    if (certificate is None) != (key is None):
        raise SettingError("tls-certificate and tls-key must be given together: give both")
    if certificate is not None and remoting is None and values["tls_listen"] is None:
        raise SettingError("tls-certificate has no effect without tls-listen or remoting: set one of them too")
    if certificate is None and values["tls_client_ca"] is not None:
        raise SettingError("tls-client-ca has no effect without tls-certificate: set that too")
    if values["remoting_tls_mode"] != TLS_MODES[0]:
        missing = "remoting" if remoting is None else "tls-certificate" if certificate is None else None
        if missing:
            raise SettingError(f"remoting-tls-mode has no effect without {missing}: set that too")


def _tls_files_from(values: Mapping[str, Any]) -> TlsFiles | None:
    if values["tls_certificate"] is None:
        return None
    return TlsFiles(values["tls_certificate"], values["tls_key"], values["tls_client_ca"])


def _properties_from(values: Mapping[str, Any]) -> BrokerProperties:
    """Makes the properties; the setting ``retention-bytes`` is one of them."""
    properties = dict(values["property"])
    if values["retention_bytes"] is not None:
        properties["retention_bytes"] = values["retention_bytes"]
    return BrokerProperties(**properties)
