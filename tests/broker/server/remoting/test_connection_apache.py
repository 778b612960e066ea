"""Bytes that are not frames, sent to a real broker and to ours."""

from __future__ import annotations

import contextlib
import socket

import pytest

from processes.apache.cluster import ApacheCluster
from processes.apache.releases import RELEASE_5, Release
from rmqpull_broker.testing import running_broker
from tests.harness.bad_frames import BAD_FRAMES, ONLY_BAD_HERE, make_frame

REQUEST = make_frame(b'{"code":31000,"opaque":8,"language":"JAVA","version":479}')


def is_served_after(address: str, data: bytes) -> bool:
    """Whether a request on the same connection is answered after these bytes."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 30) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(data)
        connection.sendall(REQUEST)
        received = b""
        while got := connection.recv(1 << 16):
            received += got
            if b"31000" in received:
                return True
    return False


@pytest.fixture
def real(apache: ApacheCluster, apache_release: Release) -> str:
    if apache_release is not RELEASE_5:
        pytest.skip("our broker answers as 5.5.0")
    return apache.brokers[0].address


def test_the_same_bytes_close_connections_of_both(real: str) -> None:
    with running_broker(remoting=True) as broker:
        (ours,) = broker.remoting_addresses
        for name, data in BAD_FRAMES.items():
            assert (name, is_served_after(real, data), is_served_after(ours, data)) == (name, False, False)


def test_what_only_the_real_broker_reads(real: str) -> None:
    with running_broker(remoting=True) as broker:
        (ours,) = broker.remoting_addresses
        for name, data in ONLY_BAD_HERE.items():
            assert (name, is_served_after(real, data), is_served_after(ours, data)) == (name, True, False)
