"""EndTransaction: a producer's word on its half message (rules 5.14, 3.15)."""

from __future__ import annotations

import logging

from rmqpull_broker.core.admin.naming import check_topic_name
from rmqpull_broker.core.errors import IllegalOperation, InvalidTransactionId, WrongTransaction
from rmqpull_broker.core.sending.transactions import Resolution, TransactionEnd, end_transaction
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import name_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc

_RESOLUTIONS = {
    v2.TransactionResolution.COMMIT: Resolution.COMMIT,
    v2.TransactionResolution.ROLLBACK: Resolution.ROLLBACK,
}

_logger = logging.getLogger(__name__)


async def answer(service: Service, request: rpc.EndTransactionRequest, caller: Caller) -> rpc.EndTransactionResponse:
    """Answers OK also for an end that comes too late, as Apache's proxy does, which does not wait; the log says why.

    Raises InvalidTransactionId, and WrongTransaction for a transaction that is not open.
    """
    caller.require_client_id()
    topic = name_of(request.topic)
    check_topic_name(topic)
    if not request.transaction_id.strip():
        raise InvalidTransactionId("transaction id cannot be empty")
    if not service.state.halves.of_message(request.transaction_id):
        raise WrongTransaction("cannot found transaction data")
    end = TransactionEnd(
        msg_id=request.transaction_id,
        producer_group=topic,
        resolution=_RESOLUTIONS.get(request.resolution, Resolution.UNKNOWN),
        from_check=request.source == v2.TransactionSource.SOURCE_SERVER_CHECK,
    )
    now_ms, store_host = service.clock_ms(), service.sender.store_host
    try:
        await service.group_commit.execute(lambda draft: end_transaction(draft, end, now_ms, store_host))
    except (IllegalOperation, WrongTransaction) as error:
        _logger.warning("transaction %s of topic %s was not ended: %s", end.msg_id, topic, error)
    return rpc.EndTransactionResponse(status=OK)
