"""The idle connections of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqpull_client.connection import Tls
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.remoting.network.connections import BrokerConnection, wait_for
from rmqpull_client.transports.remoting.network.pool import IDLE_MAX, IDLE_MAX_S, ConnectionPool
from rmqpull_proto.remoting.command import RemotingCommand, encode_command
from tests.harness.scripted_remoting import ScriptedServer
from tests.harness.waiting import WAIT_S


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda request: request.make_response(0)) as server:
        yield server


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    pool = ConnectionPool(None)
    yield pool
    pool.close()


def use(connection: BrokerConnection, requests: int = 1) -> BrokerConnection:
    connection.send(*[encode_command(RemotingCommand(11, opaque=connection.next_opaque())) for _ in range(requests)])
    received = 0
    while received < requests:
        connection.flush()
        assert wait_for([connection], WAIT_S)
        received += len(connection.receive())
    return connection


def test_a_connection_is_lent_to_one_borrower_at_a_time(server: ScriptedServer, pool: ConnectionPool) -> None:
    first, second = use(pool.borrow(server.address)), use(pool.borrow(server.address))
    assert not first.is_reused
    assert first.has_received
    pool.give_back(first)
    again = pool.borrow(server.address)
    assert again is first
    assert again.is_reused
    assert not again.has_received, "the borrower has received nothing yet"
    assert server.connections == 2
    for connection in (again, second):
        pool.give_back(connection)


def test_only_some_idle_connections_are_kept(server: ScriptedServer, pool: ConnectionPool) -> None:
    borrowed = [use(pool.borrow(server.address)) for _ in range(IDLE_MAX + 2)]
    for connection in borrowed:
        pool.give_back(connection)
    assert [connection.is_closed for connection in borrowed] == [False] * IDLE_MAX + [True] * 2
    pool.close()
    assert all(connection.is_closed for connection in borrowed)


def test_a_connection_that_was_never_opened_is_not_kept(server: ScriptedServer, pool: ConnectionPool) -> None:
    connection = pool.borrow(server.address)
    pool.give_back(connection)
    assert connection.is_closed


def test_a_connection_that_is_old_or_closed_by_the_server_is_replaced(
    server: ScriptedServer, pool: ConnectionPool
) -> None:
    old = use(pool.borrow(server.address))
    old.used_s -= IDLE_MAX_S
    pool.give_back(old)
    fresh = use(pool.borrow(server.address))
    assert fresh is not old
    assert old.is_closed
    pool.give_back(fresh)
    server.close_connections()
    wait_for([fresh], WAIT_S)
    assert pool.borrow(server.address) is not fresh
    assert fresh.is_closed


def test_responses_that_came_too_late_are_dropped(server: ScriptedServer, pool: ConnectionPool) -> None:
    connection = use(pool.borrow(server.address))
    connection.send(encode_command(RemotingCommand(11, opaque=connection.next_opaque())))
    connection.flush()
    pool.give_back(connection)
    wait_for([connection], WAIT_S)
    assert use(pool.borrow(server.address)) is connection


def test_a_large_buffer_does_not_stay_with_an_idle_connection(server: ScriptedServer, pool: ConnectionPool) -> None:
    connection = pool.borrow(server.address)
    connection.reserve(8 << 20)
    use(connection)
    assert len(connection.buffer) == 8 << 20
    pool.give_back(connection)
    use(pool.borrow(server.address))
    assert len(connection.buffer) < 1 << 20


def test_a_file_of_tls_that_cannot_be_used_is_named() -> None:
    with pytest.raises(OptionError, match=r"tlsCaFile is '/no/such\.pem'"):
        ConnectionPool(Tls(ca_file="/no/such.pem")).borrow("127.0.0.1:1")
