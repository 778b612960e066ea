"""A data directory of release 0.1.0 is read, and continued."""

from __future__ import annotations

import base64
import zlib

import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import (
    BodyEncoding,
    GroupConfig,
    Message,
    MessageQueue,
    StoredMessage,
    TopicConfig,
    TopicType,
)
from rmqpull_broker.store.inspection import dump, verify
from rmqpull_broker.store.log.segments import CorruptLog
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import StorageHarness

# A segment as 0.1.0 wrote it: a topic, a group, two single messages, two in columns, an offset, a report of lost rows.
SEGMENT = """
eNrlVs1rE0EUn0maEiVgoH701jCniCtukosUDwFDNGJokouRsJg0GaiEZuMkLQ0iiAfpnyB48eix+BcoIvTqrTd7rJ4KXgQPOrOZyc7+bKw9+8
jMm/fe733Mx86kUa3X7q/dIZRMqVGtN168qz9sajmtubLfJiE9ZYPOJmerzBc9LkbMYU+2+BYfsdW8w8aToTKVK+U1aegK3hk/9geVntRtdno8
4w+6nD2b5cs8oi8zkC8m2zkrH5NBgkRWnZ8Pv1xaplG/uGxXZPum5VZY4Lrw+1xc7zDH9WZxj+JTvkAi9JzqGpS5UnIVE7z3S1JCDsei0+XKZd
0XA6UYjX3BFwNFb5JxqV6xvhkMVbdtFvnrPyXNnS1pbk7ScL0+lg+/u4t63jQsYUUNtL7VmrNiTt7Jex5RxexIp4u65hS5LF0TJClHqWADFsiy
mUtA56WcknmSciTx8elexax53yDzKQ0c9SnNzfnR0yBZwGcBfxPwRcAXAV8Dew3sbevcKtoA/Abgd0DeBfwu2F+BfZ5s8G+hnj3A7wH+PeD3Ab
8P634A9gOId6R5UvNjwB/jvlIA0Gi8NDWnSe834I1s8mVpNKwL8YrgXwT8XbhXmoBvQr422NuQbwj1K1qC74D8R/Jp/DT/uKWLW99xpZSvlAp/
6uU9Kn/hHsfgqBm53w/1i9b+BVdsPugLJ/mhPByerN/W9/GbC1Fu7uLkLJ8YqJa+NwX8qIbAhHWOgjcg6MJclJydYlaNdvzg0Qm68B15cOv1J3
M/mndE+Vy14rVmD7Yz/0kpeJ5nvec/P6wsYVy1B9ciceX/DDFhTu4vcV0nZyL/BuPptbg=
"""
NAME = f"{0:020d}.log"
QUEUE = MessageQueue("orders", "broker-a", 0)


def stored(number: int) -> StoredMessage:
    message = Message(
        b"body %d" % number, f"ID{number}", "red", ("k",), {"p": "v"}, None, None, 4, "born", BodyEncoding.GZIP, "trace"
    )
    return StoredMessage(message, number, 1_000 + number, "store", 1)


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem({NAME: zlib.decompress(base64.b64decode(SEGMENT))})


def test_everything_in_it_is_recovered(disk: MemoryFileSystem) -> None:
    state = StorageHarness(disk).state
    assert state.topics == {"orders": TopicConfig("orders", 2, 2, TopicType.FIFO, "made once")}
    assert state.groups == {"readers": GroupConfig("readers")}
    assert columns.to_rows(state.store.read(QUEUE, *state.bounds(QUEUE))) == [stored(number) for number in range(4)]
    assert state.find_consumer_offset("readers", QUEUE) == 3
    assert state.count_lost_rows("query") == {QUEUE: 1}


def test_the_log_continues_in_a_segment_of_the_present_format(disk: MemoryFileSystem) -> None:
    before = bytes(disk.files[NAME])
    broker = StorageHarness(disk)
    broker.topic("others")
    broker.send(b"new", topic="others")
    expected = broker.observed()
    broker.stop()
    assert bytes(disk.files[NAME]) == before
    assert StorageHarness(disk).observed() == expected
    for name in [name for name in disk.names() if not name.endswith(".log")]:
        disk.remove(name)
    assert StorageHarness(disk).observed() == expected


def test_it_can_be_looked_into(disk: MemoryFileSystem) -> None:
    assert verify(disk).records == len(list(dump(disk))) == 6


def test_damage_in_it_is_refused_as_ever(disk: MemoryFileSystem) -> None:
    disk.files[NAME][100] ^= 1
    with pytest.raises(CorruptLog, match=f"{NAME} is damaged at offset"):
        StorageHarness(disk)
