"""Telemetry: a stream on which a client sends its settings, and the server sends settings and commands (rules 5.7).

Every settings command gets status OK and settings, which all official clients require (rules 5.7.2). A refusal ends the
stream with a gRPC error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData
from rmqpull_broker.core.clients.settings import (
    ClientProfile,
    PublishingSettings,
    SubscriptionSettings,
    find_consume_type,
    make_subscription_settings,
)
from rmqpull_broker.core.clients.subscriptions import SubscriptionData, make_subscription_data
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    ClientIdRequired,
    IllegalFilterExpression,
    InvalidClientProperties,
    TooManyRequests,
)
from rmqpull_broker.core.filters.message_filter import SQL92, TAG
from rmqpull_broker.core.model import CustomizedBackoff, ExponentialBackoff, GroupConfig
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.core.state.names import check_group_of_client, check_topic_of_client
from rmqpull_broker.server.clients import TelemetryStream
from rmqpull_broker.server.grpc.wire.codec import name_from, retry_policy_to
from rmqpull_broker.server.grpc.wire.commands import answer_from, command_to
from rmqpull_broker.server.grpc.wire.status import OK, make_status
from rmqpull_broker.server.limits import CLIENT_PROPERTIES_MAX, CLIENT_SETTINGS_BYTES_MAX, SUBSCRIPTIONS_MAX
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def telemetry(
    service: Service, requests: AsyncIterator[rpc.TelemetryCommand], caller: Caller
) -> AsyncIterator[rpc.TelemetryCommand]:
    """Telemetry: stays open until the client closes it or is silent for two minutes, or the broker stops."""
    try:
        caller.require_client_id()
    except ClientIdRequired as error:
        yield rpc.TelemetryCommand(status=make_status(error))
        return
    stream = service.clients.open_stream(caller.client_id, find_holder(caller.address))
    reader = asyncio.get_running_loop().create_task(_read(service, requests, caller, stream))
    try:
        async for command in stream.commands():
            yield command if isinstance(command, rpc.TelemetryCommand) else command_to(command)
    finally:
        reader.cancel()
        service.clients.close_stream(stream)


async def _read(
    service: Service, requests: AsyncIterator[rpc.TelemetryCommand], caller: Caller, stream: TelemetryStream
) -> None:
    """Responds to settings, and passes on the client's answers to questions. Ignores the rest."""
    try:
        async for request in requests:
            answer = answer_from(request)
            if answer is not None:
                service.clients.questions.take(answer)
            elif request.WhichOneof("command") == "settings":
                settings = await _take_settings(service, request.settings, caller)
                if not stream.offer(rpc.TelemetryCommand(status=OK, settings=settings)):
                    raise TooManyRequests("the client has not read the responses to earlier settings")
        stream.end()
    except Exception as error:  # noqa: BLE001 (it ends the stream, which reports it to the client and logs a bug)
        stream.end(error)


async def _take_settings(service: Service, settings: v2.Settings, caller: Caller) -> v2.Settings:
    """Registers the client. Returns the settings that it must use. Raises BrokerError."""
    if settings.WhichOneof("pub_sub") is None:
        raise BadRequest("there is no publishing or subscription data in settings")
    try:
        profile = _profile_from(settings, caller, service.clock_ms())
        service.clients.take_settings(
            profile, find_holder(caller.address)
        )  # before the response, because Python's client begins to receive before it gets that
        groups = []
        if profile.consumer is not None:
            groups = await service.ensure_groups([profile.consumer.group])
        service.clients.introduce(profile, groups)
    except BrokerError as error:
        raise type(error)(f"process client telemetryCommand failed. {error}") from error
    if profile.consumer is None:
        return _answer_producer(settings, PublishingSettings(service.state.properties.max_message_size))
    return _answer_consumer(settings, groups)


# --- the client's settings --------------------------------------------------------------------------------------------


def _profile_from(settings: v2.Settings, caller: Caller, now_ms: int) -> ClientProfile:
    _check_size(settings)
    channel = ClientChannel(caller.client_id, caller.client_id, caller.language, caller.version)
    client_type = _client_type(settings)
    if settings.HasField("publishing"):
        topics = tuple(dict.fromkeys(name_from(topic) for topic in settings.publishing.topics))
        for topic in topics:
            check_topic_of_client(topic)
        return ClientProfile(channel, client_type, topics)
    group = name_from(settings.subscription.group)
    check_group_of_client(group)
    consume_type = find_consume_type(client_type)
    subscriptions = tuple(_subscription(entry, now_ms) for entry in settings.subscription.subscriptions)
    consumer = ConsumerData(group, subscriptions, consume_type)
    return ClientProfile(channel, client_type, (), consumer, settings.request_timeout.ToMilliseconds())


def _check_size(settings: v2.Settings) -> None:
    if settings.ByteSize() > CLIENT_SETTINGS_BYTES_MAX:
        raise BadRequest(f"settings of {settings.ByteSize()} bytes are above the max {CLIENT_SETTINGS_BYTES_MAX}")
    count = len(settings.publishing.topics) + len(settings.subscription.subscriptions)
    if count > SUBSCRIPTIONS_MAX:
        raise BadRequest(f"settings with {count} topics are above the max {SUBSCRIPTIONS_MAX}")
    if len(settings.client_properties) > CLIENT_PROPERTIES_MAX:
        raise InvalidClientProperties(
            f"{len(settings.client_properties)} client properties are above the max {CLIENT_PROPERTIES_MAX}"
        )


def _client_type(settings: v2.Settings) -> str:
    try:
        return v2.ClientType.Name(settings.client_type)
    except ValueError:
        return str(settings.client_type)


def _subscription(entry: v2.SubscriptionEntry, now_ms: int) -> SubscriptionData:
    expression_type = SQL92 if entry.expression.type == v2.FilterType.SQL else TAG
    try:
        return make_subscription_data(name_from(entry.topic), expression_type, entry.expression.expression, now_ms)
    except IllegalFilterExpression:
        raise IllegalFilterExpression("expression format is not correct") from None


# --- the server's settings --------------------------------------------------------------------------------------------


def _answer_producer(settings: v2.Settings, publishing: PublishingSettings) -> v2.Settings:
    response = _copy(settings)
    _set_backoff(response, publishing.max_attempts, publishing.backoff)
    response.publishing.validate_message_type = publishing.validate_message_type
    response.publishing.max_body_size = publishing.max_body_size
    return response


def _answer_consumer(settings: v2.Settings, groups: Iterable[GroupConfig]) -> v2.Settings:
    """Makes the settings for a consumer. If its group could not be created, it keeps its own, completed by defaults."""
    for group in groups:
        response = _copy(settings)
        _set_subscription(response, make_subscription_settings(group))
        return response
    response = v2.Settings()
    _set_subscription(response, make_subscription_settings(GroupConfig("")))
    if settings.HasField("backoff_policy"):
        response.ClearField("backoff_policy")
    response.MergeFrom(_copy(settings))
    return response


def _copy(settings: v2.Settings) -> v2.Settings:
    response = v2.Settings()
    response.CopyFrom(settings)
    response.metric.CopyFrom(v2.Metric(on=False))
    return response


def _set_subscription(response: v2.Settings, subscription: SubscriptionSettings) -> None:
    _set_backoff(response, subscription.max_attempts, subscription.backoff)
    response.subscription.fifo = subscription.fifo
    response.subscription.receive_batch_size = subscription.receive_batch_size
    response.subscription.long_polling_timeout.FromMilliseconds(subscription.long_polling_timeout_ms)


def _set_backoff(response: v2.Settings, max_attempts: int, backoff: ExponentialBackoff | CustomizedBackoff) -> None:
    response.backoff_policy.CopyFrom(retry_policy_to(backoff))
    response.backoff_policy.max_attempts = max_attempts
