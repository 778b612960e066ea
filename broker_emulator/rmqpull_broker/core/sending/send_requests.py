"""Sends of the remoting protocol (rules 3.10.1): the producer selects the queue.

Producers of the gRPC protocol use ``sender``, which applies its own rules before these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.errors import FAQ, BadRequest, Forbidden, RequestFailed, TopicNotFound
from rmqpull_broker.core.messages.born_hosts import remove_port
from rmqpull_broker.core.model import (
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    Message,
    MessageQueue,
    StoredMessage,
    TopicConfig,
)
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.sending.delays import TIMER_NAMES, read_delay_level
from rmqpull_broker.core.sending.priorities import apply_priority
from rmqpull_broker.core.sending.publishing import AutoCreation
from rmqpull_broker.core.sending.sender import Sender, check_in_service
from rmqpull_broker.core.sending.storing import (
    BatchToStore,
    MessageToStore,
    Sent,
    check_size,
    store_batch,
    store_messages,
)
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import QueuePart
from rmqpull_broker.core.state.names import STAGE_PREFIX, WAITING_TOPICS, check_topic_spelling
from rmqpull_proto.names import RETRY_PREFIX, SEND_FORBIDDEN_TOPICS, TBW102
from rmqpull_proto.remoting.properties import INNER_NUM

USUAL_CREATION = AutoCreation(TBW102)
TRANSACTION_BITS = 12
"""The bits of a system flag that give a message's role in a transaction (rules 4.7)."""
_INNER_BATCH = 128
_UNREADABLE = (4, 12)
"""The transaction bits of half messages and of those rolled back."""


@dataclass(frozen=True)
class SendRequest:
    """SEND_MESSAGE, or SEND_BATCH_MESSAGE with ``is_batch`` (rules 4.6).

    A ``queue_id`` below 0 leaves the queue to the broker. ``max_reconsume_times`` is None when the client does not send
    it. ``producer`` is the producer's address.
    ``batch_properties`` are those of the request of a batch. They are checked, and not stored (rules 4.10).
    """

    topic: str
    broker_name: str
    queue_id: int = -1
    creation: AutoCreation = USUAL_CREATION
    is_batch: bool = False
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    producer: str = ""
    sys_flag: int = 0
    batch_properties: Mapping[str, str] = field(default_factory=dict)


class SendResult(NamedTuple):
    """The stored messages, and the queue id of the request or of the priority, even if they wait in another queue."""

    queue_id: int
    sent: list[Sent]


def send_request(
    sender: Sender, draft: Draft, request: SendRequest, messages: Sequence[Message], now_ms: int
) -> SendResult:
    """Stores messages in the requested queue.

    The rows of rules 3.10.1 in their order, without those on a slave and on page caches. Raises the BrokerError of the
    first one; then no message is stored, and no topic is created: see ``prepare_topic``.
    """
    topic = prepare_topic(sender, draft, request, now_ms)
    requested = _select_queue(sender, topic, request)
    to_store = [MessageToStore(requested, message, request.reconsume_times) for message in messages]
    if request.is_batch:
        _check_batch(draft, request)
        return SendResult(
            requested.queue_id, store_messages(draft, to_store, now_ms, sender.store_host, may_wait=False)
        )
    completed = _complete_single(sender, draft, request, to_store[0], now_ms)
    single = queue, message, times = apply_priority(completed, topic.write_queue_nums)
    answered = requested if queue == completed.queue else queue
    if _is_illegal_single(request, message):
        raise refusals.illegal_message(draft.properties.max_message_size)
    if request.sys_flag & TRANSACTION_BITS in _UNREADABLE and not message.transactional:
        # Apache's broker writes it to its commit log but to no queue, so nobody can read it.
        check_size(message, draft.properties)
        sent = [Sent(queue, StoredMessage(message, 0, now_ms, sender.store_host, times))]
    else:
        sent = store_messages(draft, [single], now_ms, sender.store_host)
    return SendResult(answered.queue_id, sent)


def send_columns(
    sender: Sender, draft: Draft, request: SendRequest, messages: pa.RecordBatch, now_ms: int
) -> tuple[QueuePart, ...]:
    """Stores a batch like ``send_request``, as columns of the stored schema. Returns where its messages are.

    The properties of each message must be small enough to be stored.
    """
    queue = _select_queue(sender, prepare_topic(sender, draft, request, now_ms), request)
    to_store = BatchToStore([(queue, messages.num_rows)], messages)
    _check_batch(draft, request)
    return store_batch(draft, to_store, now_ms, sender.store_host, may_wait=False)


def check_batch_request(sender: Sender, draft: Draft, request: SendRequest, now_ms: int) -> None:
    """Makes the checks of rows 0 to 12 for an unreadable batch. Raises the BrokerError of the first that fails."""
    _select_queue(sender, prepare_topic(sender, draft, request, now_ms), request)
    _check_batch(draft, request)


def prepare_topic(sender: Sender, draft: Draft, request: SendRequest, now_ms: int) -> TopicConfig:
    """Rows 0 to 5: finds the topic, or creates it.

    Run as a separate command, it keeps a new topic even if a later row refuses the message, like Apache's broker.
    Raises the BrokerError of the first row that fails.
    """
    check_in_service(draft, now_ms)
    known = draft.find_topic(request.topic)
    if known is not None and known.order and not draft.properties.broker_permission & PERM_WRITE:
        raise Forbidden(f"the broker[{_find_address(sender, draft, request)}] sending message is forbidden")
    check_topic_spelling(request.topic)
    if request.topic in SEND_FORBIDDEN_TOPICS | WAITING_TOPICS or request.topic.startswith(STAGE_PREFIX):
        raise Forbidden(f"Sending message to topic[{request.topic}] is forbidden.")
    try:
        return sender.find_or_create_topic(draft, request.topic, request.creation, now_ms)
    except TopicNotFound as error:
        raise TopicNotFound(f"{error}{FAQ}") from None


def _select_queue(sender: Sender, topic: TopicConfig, request: SendRequest) -> MessageQueue:
    """Rows 6 and 7: the queue id must exist for readers or writers; a negative one means a random queue."""
    queue_id = request.queue_id
    if queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
        raise BadRequest(f"request queueId[{queue_id}] is illegal, {describe(topic)} Producer: {request.producer}")
    if queue_id < 0:
        if not topic.write_queue_nums:
            raise RequestFailed(f"topic[{topic.name}] has no write queue to draw")
        queue_id = sender.selector.draw(topic.write_queue_nums)
    return MessageQueue(topic.name, request.broker_name, queue_id)


def _complete_single(
    sender: Sender, draft: Draft, request: SendRequest, to_store: MessageToStore, now_ms: int
) -> MessageToStore:
    """Rows 8 (retries) and 11 (transactions), and an id for a message without one.

    Apache's broker skips them for batches (rules 6.1).
    """
    if request.topic.startswith(RETRY_PREFIX):
        to_store = sender.redirect_retry(draft, to_store, request.max_reconsume_times, now_ms)
    message = to_store.message
    if message.transactional and draft.properties.reject_transaction_message:
        raise Forbidden(f"the broker[{_find_address(sender, draft, request)}] sending transaction message is forbidden")
    if message.msg_id:
        return to_store
    return to_store._replace(message=replace(message, msg_id=sender.message_ids.take_one(now_ms)))


def _is_illegal_single(request: SendRequest, message: Message) -> bool:
    """Whether a single message claims to contain others, which needs a batch queue (and there is none here)."""
    return bool(request.sys_flag & _INNER_BATCH) or INNER_NUM in message.system_properties


def _check_batch(draft: Draft, request: SendRequest) -> None:
    """Rows 10 and 12 for a batch. Apache's broker would lose a batch that has a delivery time itself (rules 6.1)."""
    if request.topic.startswith(RETRY_PREFIX):
        raise refusals.batch_of_retries(request.topic)
    shared = request.batch_properties
    is_illegal = request.sys_flag & (TRANSACTION_BITS | _INNER_BATCH) or INNER_NUM in shared
    if is_illegal or read_delay_level(shared) > 0 or not TIMER_NAMES.isdisjoint(shared):
        raise refusals.illegal_message(draft.properties.max_message_size)


def _find_address(sender: Sender, draft: Draft, request: SendRequest) -> str:
    queue = MessageQueue(request.topic, request.broker_name, 0)
    return remove_port(draft.find_store_host(queue, sender.store_host))


def describe(topic: TopicConfig) -> str:
    """Returns a topic in the text form of Apache's TopicConfig."""
    bits = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))
    perm = "".join(letter if topic.perm & bit else "-" for bit, letter in bits)
    return (
        f"TopicConfig [topicName={topic.name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm}, topicFilterType=SINGLE_TAG, topicSysFlag=0, "
        f"order={str(topic.order).lower()}, attributes={{}}]"
    )
