"""Messages for properties, and a commit log with what it recovered."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from rmqpull_broker.core.facts import Fact
from rmqpull_broker.core.model import Message, StoredMessage
from rmqpull_broker.store.commit_log import SEGMENT_BYTES, CommitLog, Recovery
from rmqpull_broker.store.vfs import FileSystem

# How long an example takes says more about the machine than about the code.
settings.register_profile("broker", deadline=None)
settings.load_profile("broker")

TIMES_MS = st.integers(-(1 << 41), 1 << 47)
st.register_type_strategy(
    Message,
    st.builds(
        Message,
        delivery_timestamp_ms=st.none() | TIMES_MS,
        born_timestamp_ms=TIMES_MS,
        transactional=st.just(False),
    ),
)
st.register_type_strategy(
    StoredMessage,
    st.builds(
        StoredMessage,
        st.from_type(Message),
        queue_offset=st.integers(0, (1 << 63) - 1),
        store_timestamp_ms=TIMES_MS,
        reconsume_times=st.integers(0, (1 << 31) - 1),
    ),
)


class OpenedLog(NamedTuple):
    """A log that takes more, the groups that it held, and what it says about them."""

    log: CommitLog
    groups: list[list[Fact]]
    recovery: Recovery


def _open_log(file_system: FileSystem, segment_bytes: int = SEGMENT_BYTES) -> OpenedLog:
    log, groups = CommitLog(file_system, segment_bytes), list[list[Fact]]()
    return OpenedLog(log, groups, log.recover(groups.append))


OpenLog = Callable[..., OpenedLog]


@pytest.fixture(scope="session")
def open_log() -> OpenLog:
    """Opens the commit log on a file system, as a broker that starts does."""
    return _open_log
