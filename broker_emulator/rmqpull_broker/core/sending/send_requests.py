"""Sends of the remoting protocol (rules 3.10.1): the producer selects the queue.

Producers of the gRPC protocol use ``sender``, which applies its own rules before these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rmqpull_broker.core import limits
from rmqpull_broker.core.errors import BadRequest, Forbidden, InternalError
from rmqpull_broker.core.messages.message_properties import count_stored_properties_bytes
from rmqpull_broker.core.model import PERM_INHERIT, PERM_READ, PERM_WRITE, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.sending.publishing import AutoCreation
from rmqpull_broker.core.sending.sender import Sender, check_in_service
from rmqpull_broker.core.sending.storing import MessageToStore, Sent, store_messages
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import RETRY_PREFIX, SEND_FORBIDDEN, TBW102, check_topic_spelling

USUAL_CREATION = AutoCreation(TBW102)


@dataclass(frozen=True)
class SendRequest:
    """SEND_MESSAGE, or SEND_BATCH_MESSAGE with ``is_batch`` (rules 4.6).

    A ``queue_id`` below 0 leaves the queue to the broker. ``max_reconsume_times`` is None when the client does not send
    it. ``producer`` is the producer's address.
    """

    topic: str
    broker_name: str
    queue_id: int = -1
    creation: AutoCreation = USUAL_CREATION
    is_batch: bool = False
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    producer: str = ""


def send_request(
    sender: Sender, draft: Draft, request: SendRequest, messages: Sequence[Message], now_ms: int
) -> list[Sent]:
    """Stores messages in the requested queue, and returns them as stored.

    The rows of rules 3.10.1 in their order, without those on a slave and on page caches. Raises the BrokerError of the
    first one; then no message is stored. No topic is created either, while Apache's broker would keep it.
    """
    check_in_service(draft, now_ms)
    topic = _find_topic(sender, draft, request, now_ms)
    to_store = [
        MessageToStore(_select_queue(sender, topic, request), message, request.reconsume_times) for message in messages
    ]
    if request.is_batch:
        if request.topic.startswith(RETRY_PREFIX):
            raise refusals.batch_of_retries(request.topic)
    else:
        to_store = [_check_single(sender, draft, request, each, now_ms) for each in to_store]
    for each in to_store:
        if count_stored_properties_bytes(each.message, draft.properties) > limits.STORED_PROPERTIES_BYTES_MAX:
            raise refusals.large_stored_properties(draft.properties.max_message_size)
    return store_messages(draft, to_store, now_ms, sender.store_host)


def _find_topic(sender: Sender, draft: Draft, request: SendRequest, now_ms: int) -> TopicConfig:
    """Rows 1 to 5."""
    known = draft.find_topic(request.topic)
    if known is not None and known.order and not draft.properties.broker_permission & PERM_WRITE:
        raise Forbidden(f"the broker[{sender.store_host}] sending message is forbidden")
    check_topic_spelling(request.topic)
    if request.topic in SEND_FORBIDDEN:
        raise Forbidden(f"Sending message to topic[{request.topic}] is forbidden.")
    return sender.find_or_create_topic(draft, request.topic, request.creation, now_ms)


def _select_queue(sender: Sender, topic: TopicConfig, request: SendRequest) -> MessageQueue:
    """Rows 6 and 7."""
    queue_id = request.queue_id
    if queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
        raise BadRequest(f"request queueId[{queue_id}] is illegal, {describe(topic)} Producer: {request.producer}")
    if queue_id < 0:
        if not topic.write_queue_nums:
            raise InternalError(f"topic[{topic.name}] has no write queue to draw")
        queue_id = sender.selector.draw(topic.write_queue_nums)
    return MessageQueue(topic.name, request.broker_name, queue_id)


def _check_single(
    sender: Sender, draft: Draft, request: SendRequest, to_store: MessageToStore, now_ms: int
) -> MessageToStore:
    """Row 8, and an id for a message without one. Messages of a batch get neither (rules 6.1)."""
    if not to_store.message.body:
        raise InternalError("the message has no body")
    if request.topic.startswith(RETRY_PREFIX):
        to_store = sender.redirect_retry(draft, to_store, request.max_reconsume_times, now_ms)
    if to_store.message.msg_id:
        return to_store
    return to_store._replace(message=replace(to_store.message, msg_id=sender.message_ids.take_one(now_ms)))


def describe(topic: TopicConfig) -> str:
    """Returns a topic in the text form of Apache's TopicConfig."""
    bits = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))
    perm = "".join(letter if topic.perm & bit else "-" for bit, letter in bits)
    return (
        f"TopicConfig [topicName={topic.name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm}, topicFilterType=SINGLE_TAG, topicSysFlag=0, "
        f"order={str(topic.order).lower()}, attributes={{}}]"
    )
