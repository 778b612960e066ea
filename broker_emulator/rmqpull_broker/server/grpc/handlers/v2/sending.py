"""SendMessage, RecallMessage and EndTransaction: the RPCs of producers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    Forbidden,
    IllegalOperation,
    InvalidTransactionId,
    MessageCorrupted,
    MessagePropertyConflictWithType,
    TopicNotFound,
    WrongTransaction,
)
from rmqpull_broker.core.model import Message, TopicType
from rmqpull_broker.core.sending import delays
from rmqpull_broker.core.sending import half_messages as transactions
from rmqpull_broker.core.sending.half_messages import Resolution, TransactionEnd
from rmqpull_broker.core.sending.refusals import NO_WRITABLE_QUEUE, is_of_store, wrong_type
from rmqpull_broker.core.sending.storing import Sent
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import check_topic_of_client
from rmqpull_broker.server.grpc.wire.codec import message_from, name_from
from rmqpull_broker.server.grpc.wire.proxy_errors import name_exception, no_route, pass_on
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.names import DLQ_PREFIX, RETRY_PREFIX

_RESOLUTIONS = {
    v2.TransactionResolution.COMMIT: Resolution.COMMIT,
    v2.TransactionResolution.ROLLBACK: Resolution.ROLLBACK,
}

_logger = logging.getLogger(__name__)


async def send_message(service: Service, request: rpc.SendMessageRequest, caller: Caller) -> rpc.SendMessageResponse:
    """SendMessage: stores one message, or several of one topic (rules 5.11).

    Responds once the messages are stored, with one entry for each, in their order.
    """
    caller.require_client_id()
    if not request.messages:
        raise MessageCorrupted("no message to send")
    topic = name_from(request.messages[0].topic)
    check_topic_of_client(topic)
    received_ms = service.clock_ms()

    def messages() -> Iterator[Message]:
        # A generator, so that each message passes all checks before the next one is read.
        for message in request.messages:
            if name_from(message.topic) != topic:
                raise MessageCorrupted("topic in message is not same")
            yield message_from(message, caller.address, received_ms)

    sent = await service.group_commit.execute(
        lambda draft: _send(service, draft, topic, messages()), request.ByteSize()
    )
    entries = [
        rpc.SendResultEntry(
            status=OK,
            message_id=row.message.msg_id,
            # Ordinary messages get one too: their message id, as from Apache's proxy (rules 6.2).
            transaction_id=row.message.msg_id,
            # For a delayed or half message: its offset in the queue where it waits.
            offset=row.queue_offset,
            recall_handle=delays.make_recall_handle(topic, queue, row.message),
        )
        for queue, row in sent
    ]
    return rpc.SendMessageResponse(status=OK, entries=entries)


def _send(service: Service, draft: Draft, topic: str, messages: Iterator[Message]) -> list[Sent]:
    """Stores messages. Raises the errors of Apache's proxy, which knows the type of a topic only from its route."""
    first: list[Message] = []

    def keep_first() -> Iterator[Message]:
        for message in messages:
            if not first:
                first.append(message)
            yield message

    try:
        return service.sender.send(draft, topic, keep_first(), service.clock_ms())
    except TopicNotFound as error:
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            raise no_route(topic) from error
        raise name_exception(wrong_type(None, first[0].topic_type)) from error
    except MessagePropertyConflictWithType as error:
        raise name_exception(error) from error
    except Forbidden as error:
        raise (name_exception(error) if str(error) == NO_WRITABLE_QUEUE else pass_on(error)) from error
    except BrokerError as error:
        raise (pass_on(error) if is_of_store(error) else error) from error


async def recall_message(
    service: Service, request: rpc.RecallMessageRequest, caller: Caller
) -> rpc.RecallMessageResponse:
    """RecallMessage: cancels the delivery of a delayed message (rules 5.15, 4.6).

    Responds with the message's id when the recall is stored.
    """
    caller.require_client_id()
    name = name_from(request.topic)
    check_topic_of_client(name)
    topic = service.state.topics.get(name)
    topic_type = None if topic is None else topic.topic_type
    if topic_type not in (TopicType.DELAY, TopicType.MIXED):
        raise name_exception(wrong_type(topic_type, TopicType.DELAY))
    try:
        broker_name = delays.parse_recall_handle(request.recall_handle).broker_name
    except IllegalOperation as error:
        raise name_exception(error) from error
    if broker_name not in service.state.broker_names:
        raise name_exception(BadRequest(f"cannot find broker {broker_name[:100]}"))
    try:
        msg_id = await service.group_commit.execute(
            lambda draft: delays.recall(draft, name, request.recall_handle, service.clock_ms())
        )
    except BrokerError as error:
        raise pass_on(error) from error
    return rpc.RecallMessageResponse(status=OK, message_id=msg_id)


async def end_transaction(
    service: Service, request: rpc.EndTransactionRequest, caller: Caller
) -> rpc.EndTransactionResponse:
    """EndTransaction: commits or rolls back a half message (rules 5.14, 3.15).

    Responds with OK even if the transaction has already ended, because Apache's proxy does not wait for its broker. The
    log says why the end had no effect. Raises InvalidTransactionId, and WrongTransaction for an unknown transaction.
    """
    caller.require_client_id()
    topic = name_from(request.topic)
    check_topic_of_client(topic)
    if not request.transaction_id.strip():
        raise InvalidTransactionId("transaction id cannot be empty")
    if not service.state.halves.find_by_id(request.transaction_id):
        raise name_exception(WrongTransaction("cannot found transaction data"))
    end = TransactionEnd(
        msg_id=request.transaction_id,
        producer_group=topic,
        resolution=_RESOLUTIONS.get(request.resolution, Resolution.UNKNOWN),
        from_check=request.source == v2.TransactionSource.SOURCE_SERVER_CHECK,
    )
    now_ms, store_host = service.clock_ms(), service.sender.store_host
    try:
        await service.group_commit.execute(lambda draft: transactions.end_transaction(draft, end, now_ms, store_host))
    except (IllegalOperation, WrongTransaction) as error:
        _logger.warning("transaction %s of topic %s was not ended: %s", end.msg_id, topic, error)
    return rpc.EndTransactionResponse(status=OK)
