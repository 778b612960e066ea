"""Puts a broker together: storage, recovered state, clock, randomness and server."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable

from rmqpull_broker.config import BrokerConfig, ClockSpec, check_properties
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.app import BrokerServer
from rmqpull_broker.server.clock import Clock, ManualClock, SystemClock
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_broker.store.storage import DiskStorage, StorageOptions
from rmqpull_broker.store.vfs import OsFileSystem

_NODE_BYTES = 6

_logger = logging.getLogger(__name__)


def storage_options(properties: BrokerProperties) -> StorageOptions:
    """What the broker's properties say of its storage."""
    return StorageOptions(
        segment_bytes=properties.mapped_file_size_commit_log,
        syncs_appends=properties.flush_disk_type == "SYNC_FLUSH",
    )


def _opened(config: BrokerConfig) -> tuple[BrokerState, MemoryStorage | DiskStorage]:
    """The state as the data directory has it, and what keeps it from now on."""
    if config.data_dir is None:
        in_memory = MemoryStorage()
        return BrokerState(in_memory.store, config.broker_names, config.properties), in_memory
    file_system = OsFileSystem(config.data_dir)
    try:
        storage = DiskStorage(file_system, storage_options(config.properties), _logger.warning)
        state = BrokerState(storage.store, config.broker_names, config.properties)
        storage.recover(state)
    except BaseException:
        file_system.close()
        raise
    if state.topics:
        _logger.info("recovered %d messages in %d topics", state.message_count(), len(state.topics))
    return state, storage


def open_broker(config: BrokerConfig, clock_from: Callable[[int], Clock] | None = None) -> BrokerServer:
    """Opens the data directory, replays its commit log, and returns a server that is not started yet.

    ``clock_from`` gives another clock than the configuration's; it is called with the newest time that a stored message
    has, before which the clock must not begin (milliseconds since the epoch).
    Raises OSError for an unusable or occupied directory, CorruptLog for a damaged commit log, and SettingError for a
    property that would change nothing.
    """
    check_properties(config.properties)
    state, storage = _opened(config)
    ids = MessageIds(secrets.token_bytes(_NODE_BYTES), os.getpid())
    clock = (clock_from or _clock_from(config.clock))(state.newest_store_ms)
    return BrokerServer(state, storage, clock, ids, extensions=config.extensions)


def _clock_from(spec: ClockSpec) -> Callable[[int], Clock]:
    def manual(latest_ms: int) -> Clock:
        start_ms = time.time_ns() // 1_000_000 if spec.start_ms is None else spec.start_ms
        return ManualClock(max(start_ms, latest_ms))

    return manual if spec.is_manual else SystemClock


def new_topics(config: BrokerConfig) -> list[TopicConfig]:
    """The topics that a configuration asks for, each with a creation id that no other topic has."""
    return [
        TopicConfig(name, queues, queues, topic_type, creation_id=secrets.token_hex(8))
        for name, queues, topic_type in config.topics
    ]
