"""Builds a broker from its parts: storage, recovered state, clock, random ids and server."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rmqpull_broker.config import BrokerConfig, TlsFiles
from rmqpull_broker.config_values import ClockSpec, SettingError
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.app import BrokerServer
from rmqpull_broker.server.clock import Clock, ManualClock, SystemClock
from rmqpull_broker.store.disk_storage import DiskStorage, StorageOptions
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_broker.store.vfs import OsFileSystem

if TYPE_CHECKING:
    import ssl

    from rmqpull_broker.server.grpc.tls import TlsAddress
    from rmqpull_broker.server.remoting.ports import RemotingAddress

_NODE_BYTES = 6

_logger = logging.getLogger(__name__)


def make_storage_options(properties: BrokerProperties) -> StorageOptions:
    """Makes the options of the storage from the broker's properties."""
    return StorageOptions(
        segment_bytes=properties.mapped_file_size_commit_log,
        syncs_appends=properties.flush_disk_type == "SYNC_FLUSH",
    )


def _open_storage(config: BrokerConfig) -> tuple[BrokerState, MemoryStorage | DiskStorage]:
    """Opens the storage, and recovers the state from it."""
    if config.data_dir is None:
        in_memory = MemoryStorage()
        return BrokerState(in_memory.store, config.broker_names, config.properties), in_memory
    file_system = OsFileSystem(config.data_dir)
    try:
        storage = DiskStorage(file_system, make_storage_options(config.properties), _logger.warning)
        state = BrokerState(storage.store, config.broker_names, config.properties)
        storage.recover(state)
    except BaseException:
        file_system.close()
        raise
    if state.topics:
        _logger.info("recovered %d messages in %d topics", state.count_messages(), len(state.topics))
    return state, storage


def open_broker(config: BrokerConfig, make_clock: Callable[[int], Clock] | None = None) -> BrokerServer:
    """Opens the data directory, recovers the state from its commit log, and returns a server that is not started.

    ``make_clock`` replaces the clock of the configuration. It is called with the newest store time, in milliseconds
    since the epoch; a manual clock must not start before it. Raises OSError for a directory that is unusable or in use,
    and CorruptLog for a damaged commit log.
    """
    state, storage = _open_storage(config)
    ids = MessageIds(secrets.token_bytes(_NODE_BYTES), os.getpid())
    clock = (make_clock or _find_clock(config.clock))(state.newest_store_ms)
    return BrokerServer(state, storage, clock, ids, extensions=config.extensions, admin_peers=config.admin_from)


def _find_clock(spec: ClockSpec) -> Callable[[int], Clock]:
    def manual(latest_ms: int) -> Clock:
        start_ms = time.time_ns() // 1_000_000 if spec.start_ms is None else spec.start_ms
        return ManualClock(max(start_ms, latest_ms))

    return manual if spec.is_manual else lambda latest_ms: SystemClock()


def make_remoting_address(config: BrokerConfig) -> RemotingAddress | None:
    """Makes the address of the remoting protocol; None if it is not served. Raises SettingError for bad TLS files."""
    if not config.remoting:
        return None
    # Imported here, because a broker without remoting starts faster.
    from rmqpull_broker.server.remoting.ports import RemotingAddress

    context = None if config.tls is None else _load_tls_context(config.tls)
    return RemotingAddress(
        config.remoting, config.remoting_advertised, context, config.remoting_needs_tls, config.remoting_vip
    )


def make_tls_address(config: BrokerConfig) -> TlsAddress | None:
    """Makes the address of gRPC clients that speak TLS; None if they are not served.

    Without files, the certificate is self-signed. Raises SettingError for files that cannot be used, and when the
    library that makes certificates is missing.
    """
    if config.tls_listen is None:
        return None
    from rmqpull_broker.server.grpc.tls import TlsAddress, make_own_certificate

    host, port = config.tls_listen
    if config.tls is None:
        try:
            return TlsAddress(host, port, *make_own_certificate(host))
        except ImportError:
            raise SettingError(
                "without tls-certificate, tls-listen needs a library that makes one: pip install 'rmqpull[tls]'"
            ) from None
    _load_tls_context(config.tls)  # only a check, because gRPC does not say what is wrong with a file
    certificate, key = Path(config.tls.certificate).read_bytes(), Path(config.tls.key).read_bytes()
    client_ca = None if config.tls.client_ca is None else Path(config.tls.client_ca).read_bytes()
    return TlsAddress(host, port, certificate, key, client_ca)


def _load_tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Loads the files of TLS. Raises SettingError."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.certificate, files.key, password="")
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        names = ", ".join(name for name in (files.certificate, files.key, files.client_ca) if name)
        raise SettingError(f"the files for TLS cannot be used: {error} ({names})") from None
    return context


def make_topics(config: BrokerConfig) -> list[TopicConfig]:
    """Makes the topics of a configuration, each with a unique creation id."""
    return [
        TopicConfig(name, queues, queues, topic_type, creation_id=secrets.token_hex(8))
        for name, queues, topic_type in config.topics
    ]
