"""Puts a broker together: file system, commit log, recovered state, clock, randomness and server."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable

from rmqpull_broker.config import BrokerConfig, Extensions
from rmqpull_broker.core.message_ids import MessageIds
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.state import BrokerState
from rmqpull_broker.server.app import BrokerServer
from rmqpull_broker.server.clock import Clock, SystemClock
from rmqpull_broker.store.commit_log import CommitLog
from rmqpull_broker.store.memory_vfs import MemoryFileSystem
from rmqpull_broker.store.queues import ConsumeQueues
from rmqpull_broker.store.vfs import FileSystem, OsFileSystem

_NODE_BYTES = 6

_logger = logging.getLogger(__name__)


def open_broker(config: BrokerConfig, clock_from: Callable[[int], Clock] = SystemClock) -> BrokerServer:
    """Opens the data directory, replays its commit log, and returns a server that is not started yet.

    ``clock_from`` gives its clock; it is called with the newest time that a stored message has, before which the clock
    must not begin (milliseconds since the epoch).
    Raises OSError for an unusable or occupied directory, and CorruptLog for a damaged commit log.
    """
    file_system: FileSystem = OsFileSystem(config.data_dir) if config.data_dir is not None else MemoryFileSystem()
    try:
        log = CommitLog(file_system)
        state = BrokerState(ConsumeQueues(), config.broker_names, config.properties)
        recovery = log.recover(state.apply)
    except BaseException:
        file_system.close()
        raise
    if recovery.groups:
        _logger.info("recovered %d messages in %d topics", state.message_count(), len(state.topics))
    if recovery.dropped_bytes:
        _logger.warning(
            "dropped %d bytes at the end of %s, taken for a write that was cut short before it was acknowledged",
            recovery.dropped_bytes,
            recovery.dropped_from,
        )
    ids = MessageIds(secrets.token_bytes(_NODE_BYTES), os.getpid())
    clock = clock_from(state.newest_store_ms)
    return BrokerServer(state, log, clock, ids, with_columns=config.extensions is Extensions.COLUMNS)


def new_topics(config: BrokerConfig) -> list[TopicConfig]:
    """The topics that a configuration asks for, each with a creation id that no other topic has."""
    return [
        TopicConfig(name, queues, queues, topic_type, creation_id=secrets.token_hex(8))
        for name, queues, topic_type in config.topics
    ]
