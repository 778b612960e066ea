"""Requests that wait for their turn while their client leaves."""

from __future__ import annotations

import asyncio
import select

import pytest

from rmqpull_broker.server.remoting.calls import RemotingCall
from rmqpull_broker.server.remoting.connection import RemotingConnection
from rmqpull_broker.server.remoting.dispatch import Dispatcher, Respond
from rmqpull_broker.server.remoting.left import Departure
from rmqpull_broker.server.runtime.slices import SLICE_S
from tests.harness.leaving_clients import LEAVE, connected_ends
from tests.harness.remoting_transport import SITE, NoConnections, Transport, request

pytestmark = pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="only Linux tells it")
REQUESTS = 10


class Parking(Dispatcher):
    """A dispatcher whose requests wait until their client is gone."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    def handle(self, call: RemotingCall, respond: Respond) -> bool:
        self.tasks.append(asyncio.create_task(self._park(call)))
        return True

    async def _park(self, call: RemotingCall) -> None:
        with call.peer.ending_with_connection():
            await asyncio.wait_for(asyncio.Event().wait(), 60)


@pytest.mark.parametrize("how", LEAVE)
def test_requests_of_a_client_that_has_left_are_dropped_or_wait_for_nothing(how: str) -> None:
    leave, leaving = LEAVE[how]
    dispatcher = Parking()
    connection = RemotingConnection(NoConnections(dispatcher, clock=lambda: 0.0), SITE)

    async def run() -> tuple[int, int]:
        connection.data_received(b"".join(map(request, range(REQUESTS))))
        leave(client)
        for _ in range(3 * REQUESTS):
            await asyncio.sleep(0)
        tasks = dispatcher.tasks
        parked = sum(not task.done() for task in tasks)
        connection.connection_lost(None)
        await asyncio.wait(tasks)
        return len(tasks), parked

    with connected_ends() as (client, accepted):
        connection.connection_made(Transport(accepted))
        connection.note_step(2 * SLICE_S)  # so a turn begins one request
        assert (
            asyncio.run(run())
            == {
                Departure.NOTHING: (REQUESTS, REQUESTS),
                Departure.SENDS_NO_MORE: (REQUESTS, 1),  # the first one was parked before
                Departure.ALL: (1, 1),
            }[leaving]
        )
    assert connection.is_open is False
