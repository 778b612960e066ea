"""Converts protobuf messages to and from the core's types (rules 5.11, 5.12.1).

Functions end in ``_from`` when they read protobuf, and in ``_to`` when they make it.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping

from google.protobuf.timestamp_pb2 import Timestamp

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.filters.message_filter import SQL92, TAG
from rmqpull_broker.core.messages.born_hosts import remove_port
from rmqpull_broker.core.messages.hidden_properties import drop_hidden
from rmqpull_broker.core.messages.remoting_records import show_host
from rmqpull_broker.core.model import (
    PERM_READ,
    PERM_WRITE,
    BodyEncoding,
    CustomizedBackoff,
    ExponentialBackoff,
    Message,
    MessageQueue,
    StoredMessage,
)
from rmqpull_broker.core.sending.priorities import read_priority
from rmqpull_broker.core.sending.send_back import RECONSUME_TIME
from rmqpull_broker.core.state.names import add_namespace
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.remoting.properties import (
    BORN_HOST,
    BORN_TIMESTAMP,
    CHECK_IMMUNITY_TIME,
    LITE_TOPIC,
    PRIORITY,
    RESERVED,
    SHARDING_KEY,
    TRACE_CONTEXT,
)
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rmqpull.v1 import stages_pb2

_ENCODINGS = {
    v2.Encoding.ENCODING_UNSPECIFIED: BodyEncoding.IDENTITY,
    v2.Encoding.IDENTITY: BodyEncoding.IDENTITY,
    v2.Encoding.GZIP: BodyEncoding.GZIP,
}


def name_from(resource: v2.Resource) -> str:
    """Reads the name of a topic or group, with its namespace as Apache's proxy adds it (rules 5.5)."""
    return add_namespace(resource.resource_namespace, resource.name)


def queue_from(message_queue: v2.MessageQueue, broker_name: str) -> MessageQueue:
    """Reads a queue; without a broker it belongs to ``broker_name``."""
    return MessageQueue(name_from(message_queue.topic), message_queue.broker.name or broker_name, message_queue.id)


def column_queue_from(queue: v1.Queue) -> MessageQueue:
    """Reads a queue of ``rmqpull.v1``. Raises BadRequest without its topic or broker."""
    if not queue.topic or not queue.broker_name:
        raise BadRequest("a queue needs its topic and the name of its broker")
    return MessageQueue(queue.topic, queue.broker_name, queue.queue_id)


def column_queue_to(queue: MessageQueue) -> v1.Queue:
    """Makes a queue of ``rmqpull.v1``."""
    return v1.Queue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)


def transaction_id_from(transaction: stages_pb2.Transaction) -> TransactionId:
    """Reads the id of a transaction."""
    return TransactionId(transaction.id, transaction.batch_id if transaction.HasField("batch_id") else None)


def endpoints_to(host: str, port: int) -> v2.Endpoints:
    """Makes the address in a route."""
    return v2.Endpoints(scheme=_scheme(host), addresses=[v2.Address(host=host, port=port)])


def _scheme(host: str) -> v2.AddressScheme:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return v2.AddressScheme.DOMAIN_NAME
    return v2.AddressScheme.IPv4 if version == 4 else v2.AddressScheme.IPv6


def permission_to(perm: int) -> v2.Permission:
    """Makes a permission from its bits."""
    return {
        0: v2.Permission.NONE,
        PERM_READ: v2.Permission.READ,
        PERM_WRITE: v2.Permission.WRITE,
        PERM_READ | PERM_WRITE: v2.Permission.READ_WRITE,
    }[perm & (PERM_READ | PERM_WRITE)]


def milliseconds_from(timestamp: Timestamp) -> int:
    """Reads a time as milliseconds since the epoch. Raises BadRequest outside the years 1 to 9999."""
    try:
        return timestamp.ToMilliseconds()
    except ValueError as error:
        raise BadRequest(str(error)) from None


def expression_type_from(expression: v2.FilterExpression) -> str:
    """Reads the type of an expression; unspecified means TAG."""
    return SQL92 if expression.type == v2.FilterType.SQL else TAG


def retry_policy_to(backoff: ExponentialBackoff | CustomizedBackoff) -> v2.RetryPolicy:
    """Makes a retry policy, without a number of attempts."""
    policy = v2.RetryPolicy()
    if isinstance(backoff, ExponentialBackoff):
        policy.exponential_backoff.initial.FromMilliseconds(backoff.initial_ms)
        policy.exponential_backoff.max.FromMilliseconds(backoff.max_ms)
        policy.exponential_backoff.multiplier = backoff.multiplier
    else:
        for delay_ms in backoff.next_ms:
            policy.customized_backoff.next.add().FromMilliseconds(delay_ms)
    return policy


def retry_policy_from(policy: v2.RetryPolicy) -> ExponentialBackoff | CustomizedBackoff | None:
    """Reads a retry policy; None for one without a strategy, which stands for the default."""
    if policy.HasField("exponential_backoff"):
        own = policy.exponential_backoff
        return ExponentialBackoff(own.initial.ToMilliseconds(), own.max.ToMilliseconds(), own.multiplier)
    if policy.HasField("customized_backoff"):
        return CustomizedBackoff(tuple(delay.ToMilliseconds() for delay in policy.customized_backoff.next))
    return None


def message_from(message: v2.Message, peer_address: str, now_ms: int) -> Message:
    """Reads a message from a producer at ``host:port``. Raises BadRequest."""
    system = message.system_properties
    # Like Apache's proxy, treats an unknown encoding as no encoding.
    encoding = _ENCODINGS.get(system.body_encoding, BodyEncoding.IDENTITY)
    has_delivery_time = system.HasField("delivery_timestamp")
    born_ms = milliseconds_from(system.born_timestamp) if system.HasField("born_timestamp") else now_ms
    return Message(
        body=message.body,
        msg_id=system.message_id,
        tags=system.tag or None,
        keys=tuple(system.keys),
        properties=dict(message.user_properties),
        message_group=system.message_group or None,
        delivery_timestamp_ms=milliseconds_from(system.delivery_timestamp) if has_delivery_time else None,
        born_timestamp_ms=born_ms,
        born_host=peer_address,
        body_encoding=encoding,
        trace_context=system.trace_context if system.HasField("trace_context") else None,
        transactional=system.message_type == v2.MessageType.TRANSACTION,
        system_properties=_system_properties(message, system.born_host or peer_address, born_ms),
    )


def _system_properties(message: v2.Message, born_host: str, born_ms: int) -> Mapping[str, str]:
    """The properties that Apache's proxy adds for its broker (rules 5.11, "Translation")."""
    system = message.system_properties
    properties = {BORN_HOST: born_host, BORN_TIMESTAMP: str(born_ms)}
    if system.message_type == v2.MessageType.TRANSACTION:
        # The proxy has no producer groups, and uses the topic instead.
        properties["PGROUP"] = name_from(message.topic)
        if system.HasField("orphaned_transaction_recovery_duration"):
            properties[CHECK_IMMUNITY_TIME] = str(system.orphaned_transaction_recovery_duration.seconds)
    if system.HasField("priority"):
        properties[PRIORITY] = str(system.priority)
    if system.delivery_attempt:
        properties[RECONSUME_TIME] = str(system.delivery_attempt)
    return properties


def pulled_message_to(stored: StoredMessage, queue: MessageQueue) -> v2.Message:
    """Makes the message for a pull, which Apache's proxy does not serve. The born host is as Java's clients show it."""
    message = message_to(stored, queue)
    message.system_properties.born_host = show_host(stored.message.born_host)
    return message


def message_to(stored: StoredMessage, queue: MessageQueue) -> v2.Message:
    """Makes the message for a consumer, as Apache's proxy does (rules 5.12.1)."""
    message = stored.message
    system = v2.SystemProperties(
        tag=message.tags,
        keys=message.keys,
        message_id=message.msg_id,
        body_digest=v2.Digest(type=v2.DigestType.MD5, checksum=hashlib.md5(message.body).hexdigest().upper()),
        body_encoding=v2.Encoding.IDENTITY if message.body_encoding is BodyEncoding.IDENTITY else v2.Encoding.GZIP,
        message_type=message.topic_type.value,
        born_host=message.system_properties.get(BORN_HOST, "").strip() or remove_port(message.born_host),
        store_host=stored.store_host,
        queue_id=queue.queue_id,
        queue_offset=stored.queue_offset,
        delivery_attempt=stored.reconsume_times + 1,
        message_group=message.message_group,
        trace_context=message.trace_context,
        priority=read_priority(message),
        lite_topic=message.system_properties.get(LITE_TOPIC),
    )
    system.born_timestamp.FromMilliseconds(message.born_timestamp_ms)
    system.store_timestamp.FromMilliseconds(stored.store_timestamp_ms)
    if message.delivery_timestamp_ms is not None:
        system.delivery_timestamp.FromMilliseconds(message.delivery_timestamp_ms)
    return v2.Message(
        topic=v2.Resource(name=queue.topic),
        user_properties=_user_properties(message),
        system_properties=system,
        body=message.body,
    )


def _user_properties(message: Message) -> Mapping[str, str]:
    """All properties that are not reserved, including RocketMQ's message group (rules 5.12.1, 6.2)."""
    own = {name: value for name, value in drop_hidden(message.system_properties).items() if name not in RESERVED}
    fields = {SHARDING_KEY: message.message_group, TRACE_CONTEXT: message.trace_context}
    return {**message.properties, **own, **{name: value for name, value in fields.items() if value is not None}}
