"""ListClients, ListLocks, LockQueues and UnlockQueues."""

from __future__ import annotations

from collections.abc import Iterator

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.core.steps import sort_in_steps, walk
from rmqpull_broker.server.grpc.handlers.admin.codec import clients_to
from rmqpull_broker.server.grpc.long_response import respond
from rmqpull_broker.server.grpc.wire.codec import column_queue_from, column_queue_to
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def list_clients(service: Service, request: rpc.ListClientsRequest, caller: Caller) -> rpc.ListClientsResponse:
    """ListClients: returns the clients whose settings or heartbeats have not expired (rules 3.6).

    A group without members has no clients, whether the group exists or not.
    """
    return rpc.ListClientsResponse(status=OK, clients=clients_to(service.clients, request.group))


async def list_locks(service: Service, request: rpc.ListLocksRequest, caller: Caller) -> rpc.ListLocksResponse:
    """ListLocks: returns the queue locks that have not expired, by group and queue (rules 3.8)."""
    return await respond(service.slices, rpc.ListLocksResponse(status=OK), _list_locks(service, request.group))


def _list_locks(service: Service, group_name: str) -> Iterator[rpc.ListLocksResponse | None]:
    locks, now_ms = service.clients.locks, service.steady_ms()
    for group in [group_name] if group_name else locks.groups():
        listed = locks.list_locks(group, now_ms)
        for queue in (yield from sort_in_steps(listed)):
            lock = rpc.QueueLock(
                group=group,
                queue=column_queue_to(queue),
                client_id=listed[queue].client_id,
                last_update_timestamp_ms=listed[queue].last_update_ms,
            )
            yield rpc.ListLocksResponse(locks=[lock])


async def lock_queues(service: Service, request: rpc.LockQueuesRequest, caller: Caller) -> rpc.LockQueuesResponse:
    """LockQueues: acquires or renews queue locks, as LOCK_BATCH_MQ does (rules 3.8).

    Responds with OK even if another client has locked all of the queues; the response lists the queues it got.
    """
    if not request.group or not request.client_id:
        raise BadRequest("a lock needs a group and a client id")
    return await respond(service.slices, rpc.LockQueuesResponse(status=OK), _lock(service, request, caller))


def _lock(service: Service, request: rpc.LockQueuesRequest, caller: Caller) -> Iterator[rpc.LockQueuesResponse | None]:
    queues = map(column_queue_from, request.queues)
    locked = yield from service.clients.locks.lock_in_steps(
        request.group, request.client_id, queues, service.steady_ms(), find_holder(caller.address)
    )
    for queue in (yield from sort_in_steps(locked)):
        yield rpc.LockQueuesResponse(locked=[column_queue_to(queue)])


async def unlock_queues(service: Service, request: rpc.UnlockQueuesRequest, caller: Caller) -> rpc.UnlockQueuesResponse:
    """UnlockQueues: releases queue locks, as UNLOCK_BATCH_MQ does; skips those of other clients (rules 3.8)."""
    return await respond(service.slices, rpc.UnlockQueuesResponse(status=OK), _unlock(service, request))


def _unlock(service: Service, request: rpc.UnlockQueuesRequest) -> Iterator[None]:
    queues: list[MessageQueue] = []
    for piece in walk(map(column_queue_from, request.queues)):
        queues += piece
        yield
    yield from service.clients.locks.unlock_in_steps(request.group, request.client_id, queues)
