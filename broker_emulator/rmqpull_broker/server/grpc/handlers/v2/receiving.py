"""ReceiveMessage: delivers messages that the consumer has to acknowledge one by one (rules 5.12).

The response is a stream: a status, the messages, and the time of the delivery.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import NamedTuple

from rmqpull_broker.core.admin.topics import has_readable_queue
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    ConsumerGroupNotFound,
    Forbidden,
    IllegalFilterExpression,
    IllegalPollingTime,
    InternalError,
)
from rmqpull_broker.core.filters.message_filter import (
    MessageFilter,
    bind_constants,
    make_pull_filter,
)
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.model import GroupConfig, StoredMessage
from rmqpull_broker.core.popping.acks import check_invisible_time, give_up, is_exhausted
from rmqpull_broker.core.popping.receipts import DeliveredMessage, Receipt
from rmqpull_broker.core.popping.renewals import FIRST_INVISIBLE_MS, Holder
from rmqpull_broker.core.popping.request import PoppedPart, PopRequest, PopResult
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.core.state.names import check_group_of_client, check_topic_of_client
from rmqpull_broker.server.grpc.wire.codec import expression_type_from, message_to, name_from
from rmqpull_broker.server.grpc.wire.proxy_errors import name_exception, require_route
from rmqpull_broker.server.grpc.wire.status import OK, make_status
from rmqpull_broker.server.runtime.pops import ENDS_EARLY_MS
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc

POLLING_MS_MIN, POLLING_MS_MAX = 5_000, 20_000
INVISIBLE_MS_MIN = 10_000


_VERSION_NUMBER = re.compile("[0-9]{1,9}")
_logger = logging.getLogger(__name__)


class _Outgoing(NamedTuple):
    """A message for the consumer."""

    part: PoppedPart
    stored: StoredMessage
    receipt: Receipt
    attempt: int


async def receive_message(
    service: Service, request: rpc.ReceiveMessageRequest, caller: Caller
) -> AsyncIterator[rpc.ReceiveMessageResponse]:
    """ReceiveMessage: waits for messages, and delivers each to one consumer of the group.

    A message that was delivered as often as the group allows becomes a dead letter instead. With ``auto_renew``, the
    broker extends the invisible times of the messages until the consumer acknowledges them (rules 5.12.3).
    """
    left: list[_Outgoing] = []
    holder = Holder(caller.client_id, name_from(request.group))
    try:
        try:
            pop, group, poll_ms = await _pop_from(service, request, caller)
            left_s = math.inf if caller.remaining_ms is None else (caller.remaining_ms - ENDS_EARLY_MS) / 1_000
            result = await service.pops.pop(pop, poll_ms - ENDS_EARLY_MS, left_s, find_holder(caller.address))
            left = list(_read(service, result))
            left = await _drop_exhausted(service, group, left)
        except BrokerError as error:
            yield rpc.ReceiveMessageResponse(status=make_status(error))
        else:
            if request.auto_renew:
                _keep(service, holder, pop.topic, left)
            yield rpc.ReceiveMessageResponse(status=_find_status(result, left))
            for each in list(left):
                yield rpc.ReceiveMessageResponse(message=_message_to(each, pop.topic))
                left.pop(0)
        last = rpc.ReceiveMessageResponse()
        last.delivery_timestamp.FromMilliseconds(service.clock_ms())
        yield last
    finally:
        # The caller has not got these: it has left, or the broker could not store dead letters.
        service.pops.release([DeliveredMessage(holder.group, each.part.queue, each.receipt) for each in left])
        for each in left:
            service.renewer.forget(holder, each.stored.message.msg_id, each.receipt)


async def _pop_from(
    service: Service, request: rpc.ReceiveMessageRequest, caller: Caller
) -> tuple[PopRequest, GroupConfig, int]:
    """Checks a request in the order of Apache's proxy. Returns the pop, its group, and the time to wait in ms."""
    caller.require_client_id()
    if not service.clients.has_profile(caller.client_id):
        raise InternalError("NullPointerException: cannot find client settings for this client")
    poll_ms = _find_polling_ms(request, caller, service.clients.find_request_timeout_ms(caller.client_id))
    topic_name, group_name = name_from(request.message_queue.topic), name_from(request.group)
    check_topic_of_client(topic_name)
    check_group_of_client(group_name)
    invisible_ms = FIRST_INVISIBLE_MS
    if not request.auto_renew:
        invisible_ms = check_invisible_time(request.invisible_duration.ToMilliseconds(), INVISIBLE_MS_MIN)
    message_filter = _filter_from(service, request.filter_expression)
    topic = require_route(service.state, topic_name)
    if not has_readable_queue(topic, service.state.properties.broker_permission):
        raise name_exception(Forbidden("no readable queue"))
    group = await _find_group(service, group_name)
    pop = PopRequest(
        group_name,
        topic_name,
        _choose_broker(service, request.message_queue.broker.name),
        max_msg_nums=max(1, request.batch_size),
        invisible_ms=invisible_ms,
        message_filter=message_filter,
        in_order=group.consume_message_orderly,
        attempt_id=request.attempt_id,
    )
    return pop, group, poll_ms


def _find_polling_ms(request: rpc.ReceiveMessageRequest, caller: Caller, request_timeout_ms: int) -> int:
    """Returns how long to wait for messages: as long as the consumer requests, or as its deadline leaves.

    Half of the consumer's request timeout is reserved for the response.
    """
    # Without a deadline, enough is left for the longest polling time.
    left_ms = POLLING_MS_MAX * 2 if caller.remaining_ms is None else caller.remaining_ms
    asked_ms = left_ms - request_timeout_ms // 2
    if request.HasField("long_polling_timeout"):
        asked_ms = request.long_polling_timeout.ToMilliseconds()
    asked_ms = min(max(asked_ms, POLLING_MS_MIN), POLLING_MS_MAX)
    if asked_ms <= left_ms:
        return asked_ms
    if left_ms >= POLLING_MS_MIN:
        return left_ms
    text = "The deadline time remaining is not enough for polling, please check network condition"
    raise IllegalPollingTime(text) if _knows_polling_time(caller.version) else BadRequest(text)


def _knows_polling_time(version: str) -> bool:
    """Whether a client knows the code ILLEGAL_POLLING_TIME, as those of 5.0.3 and later do."""
    numbers = version.split("-")[0].split(".")[:3]
    return all(map(_VERSION_NUMBER.fullmatch, numbers)) and [*map(int, numbers)] >= [5, 0, 3]


def _filter_from(service: Service, expression: v2.FilterExpression) -> MessageFilter:
    """Reads the filter of a consumer. Raises IllegalFilterExpression; InternalError for bad SQL (rules 6.2)."""
    properties = service.state.properties
    expression_type = expression_type_from(expression)
    try:
        found = make_pull_filter(expression_type, expression.expression, properties.enable_property_filter)
        if expression_type != "TAG":
            found = make_pull_filter(
                expression_type, expression.expression, properties.enable_property_filter, is_strict=True
            )
    except IllegalFilterExpression as error:
        if expression_type == "TAG" or not expression.expression:
            raise IllegalFilterExpression("expression format is not correct") from None
        raise InternalError("parse the consumer's subscription failed") from error
    return bind_constants(found, make_common_properties(properties))


async def _find_group(service: Service, name: str) -> GroupConfig:
    group = service.state.groups.get(name) or next(iter(await service.ensure_groups([name])), None)
    if group is None:
        raise ConsumerGroupNotFound(f"subscription group [{name}] does not exist")
    if not group.consume_enable:
        raise InternalError(f"subscription group no permission, {name}")
    return group


def _choose_broker(service: Service, name: str) -> str:
    names = service.state.broker_names
    return name if name in names else random.choice(names)


def _read(service: Service, result: PopResult) -> Iterator[_Outgoing]:
    for part in result.parts:
        for stored in columns.to_rows(part.pulled.batches):
            physical = service.state.physical_offsets.find(part.queue, stored.queue_offset)
            receipt = result.make_receipt(part, stored.queue_offset, physical)
            attempt = max(stored.reconsume_times, part.consumed_times.get(stored.queue_offset, 0)) + 1
            yield _Outgoing(part, stored, receipt, attempt)


async def _drop_exhausted(service: Service, group: GroupConfig, delivered: list[_Outgoing]) -> list[_Outgoing]:
    """Makes messages that were delivered too often dead letters. Returns the others.

    Each is a separate command, which gets the next offset of the dead-letter queue. A message whose command is refused
    stays in flight, and is redelivered.
    """
    exhausted = [each for each in delivered if is_exhausted(group, each.attempt)]
    if exhausted:
        now_ms = service.clock_ms()
        outcomes = await asyncio.gather(
            *(
                service.group_commit.execute(partial(give_up, sender=service.sender, message=message, now_ms=now_ms))
                for message in (DeliveredMessage(group.name, each.part.queue, each.receipt) for each in exhausted)
            ),
            return_exceptions=True,
        )
        for error in outcomes:
            if isinstance(error, BrokerError):
                _logger.warning("a message of %s cannot become a dead letter: %s", group.name, error)
            elif isinstance(error, BaseException):
                raise error
    return [each for each in delivered if not is_exhausted(group, each.attempt)]


def _keep(service: Service, holder: Holder, topic: str, delivered: list[_Outgoing]) -> None:
    for each in delivered:
        service.renewer.keep(holder, each.stored.message.msg_id, topic, each.receipt, each.attempt - 1)


def _find_status(result: PopResult, delivered: list[_Outgoing]) -> v2.Status:
    if delivered:
        return OK
    text = "no match message" if result.message_count else "no new message"
    return v2.Status(code=v2.Code.MESSAGE_NOT_FOUND, message=text)


def _message_to(each: _Outgoing, topic: str) -> v2.Message:
    """Makes the message for a consumer. A redelivered one looks as if it came from its original topic."""
    message = message_to(each.stored, each.part.queue._replace(topic=topic))
    message.system_properties.receipt_handle = each.receipt.handle
    message.system_properties.delivery_attempt = each.attempt
    return message
