"""Telemetry: a client's settings and the server's answer, and afterwards the server's commands (rules 5.7).

The server answers every settings command with status OK and settings, as all official clients insist (rules 5.7.2). A
refusal ends the stream with an error of gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from rmqpull_broker.core.admin.naming import check_group_name, check_topic_name
from rmqpull_broker.core.clients.channels import ClientChannel
from rmqpull_broker.core.clients.consumer_registry import ConsumerData
from rmqpull_broker.core.clients.settings import (
    ClientProfile,
    CustomizedBackoff,
    ExponentialBackoff,
    PublishingSettings,
    SubscriptionSettings,
    consume_type_of,
    subscription_settings,
)
from rmqpull_broker.core.clients.subscriptions import SubscriptionData, subscription_data
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    ClientIdRequired,
    IllegalFilterExpression,
    InvalidClientProperties,
    TooManyRequests,
)
from rmqpull_broker.core.filters.filtering import SQL92, TAG
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.server.clients.telemetry_stream import TelemetryStream
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import name_of
from rmqpull_broker.server.wire.limits import CLIENT_PROPERTIES_MAX, SETTINGS_BYTES_MAX, SUBSCRIPTIONS_MAX
from rmqpull_broker.server.wire.status import OK, status_of
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(
    service: Service, requests: AsyncIterator[rpc.TelemetryCommand], caller: Caller
) -> AsyncIterator[rpc.TelemetryCommand]:
    """Stays open until the client closes its side, was silent for two minutes, or the broker stops."""
    try:
        caller.require_client_id()
    except ClientIdRequired as error:
        yield rpc.TelemetryCommand(status=status_of(error))
        return
    stream = service.clients.open_stream(caller.client_id)
    reader = asyncio.get_running_loop().create_task(_read(service, requests, caller, stream))
    try:
        async for command in stream.commands():
            yield command
    finally:
        reader.cancel()
        service.clients.close_stream(stream)


async def _read(
    service: Service, requests: AsyncIterator[rpc.TelemetryCommand], caller: Caller, stream: TelemetryStream
) -> None:
    """Answers settings. Everything else that a client may send replies to commands that this broker never gives."""
    try:
        async for request in requests:
            if request.WhichOneof("command") == "settings":
                settings = await _take_settings(service, request.settings, caller)
                if not stream.offer(rpc.TelemetryCommand(status=OK, settings=settings)):
                    raise TooManyRequests("the answers to earlier settings were not read yet")
        stream.end()
    except Exception as error:  # noqa: BLE001 (it ends the stream, where it is told and, if it is a mistake, logged)
        stream.end(error)


async def _take_settings(service: Service, settings: v2.Settings, caller: Caller) -> v2.Settings:
    """Registers the client and gives the settings that it is to use. Raises BrokerError."""
    if settings.WhichOneof("pub_sub") is None:
        raise BadRequest("there is no publishing or subscription data in settings")
    try:
        profile = _profile_from(settings, caller, service.clock_ms())
        groups = []
        if profile.consumer is not None:
            groups = await service.groups_with_retry_topic([profile.consumer.group])
        service.clients.introduce(profile, groups)
    except BrokerError as error:
        raise type(error)(f"process client telemetryCommand failed. {error}") from error
    if profile.consumer is None:
        return _told_producer(settings, PublishingSettings(service.state.properties.max_message_size))
    return _told_consumer(settings, groups)


# --- what the client says ---------------------------------------------------------------------------------------------


def _profile_from(settings: v2.Settings, caller: Caller, now_ms: int) -> ClientProfile:
    _check_size(settings)
    channel = ClientChannel(caller.client_id, caller.client_id, caller.language, caller.version)
    client_type = _client_type(settings)
    if settings.HasField("publishing"):
        topics = tuple(dict.fromkeys(name_of(topic) for topic in settings.publishing.topics))
        for topic in topics:
            check_topic_name(topic)
        return ClientProfile(channel, client_type, topics)
    group = name_of(settings.subscription.group)
    check_group_name(group)
    consume_type = consume_type_of(client_type)
    subscriptions = tuple(_subscription(entry, now_ms) for entry in settings.subscription.subscriptions)
    return ClientProfile(channel, client_type, consumer=ConsumerData(group, subscriptions, consume_type))


def _check_size(settings: v2.Settings) -> None:
    if settings.ByteSize() > SETTINGS_BYTES_MAX:
        raise BadRequest(f"settings of {settings.ByteSize()} bytes are above the max {SETTINGS_BYTES_MAX}")
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
        return subscription_data(name_of(entry.topic), expression_type, entry.expression.expression, now_ms)
    except IllegalFilterExpression:
        raise IllegalFilterExpression("expression format is not correct") from None


# --- what it is told --------------------------------------------------------------------------------------------------


def _told_producer(settings: v2.Settings, told: PublishingSettings) -> v2.Settings:
    answered = _copy(settings)
    _set_backoff(answered, told.max_attempts, told.backoff)
    answered.publishing.validate_message_type = told.validate_message_type
    answered.publishing.max_body_size = told.max_body_size
    return answered


def _told_consumer(settings: v2.Settings, groups: Iterable[GroupConfig]) -> v2.Settings:
    """A client whose group could not be made keeps its own settings; the defaults fill their gaps."""
    for group in groups:
        answered = _copy(settings)
        _set_subscription(answered, subscription_settings(group))
        return answered
    answered = v2.Settings()
    _set_subscription(answered, subscription_settings(GroupConfig("")))
    if settings.HasField("backoff_policy"):
        answered.ClearField("backoff_policy")
    answered.MergeFrom(_copy(settings))
    return answered


def _copy(settings: v2.Settings) -> v2.Settings:
    answered = v2.Settings()
    answered.CopyFrom(settings)
    answered.metric.CopyFrom(v2.Metric(on=False))
    return answered


def _set_subscription(answered: v2.Settings, told: SubscriptionSettings) -> None:
    _set_backoff(answered, told.max_attempts, told.backoff)
    answered.subscription.fifo = told.fifo
    answered.subscription.receive_batch_size = told.receive_batch_size
    answered.subscription.long_polling_timeout.FromMilliseconds(told.long_polling_timeout_ms)


def _set_backoff(answered: v2.Settings, max_attempts: int, backoff: ExponentialBackoff | CustomizedBackoff) -> None:
    policy = answered.backoff_policy
    policy.Clear()
    policy.max_attempts = max_attempts
    if isinstance(backoff, ExponentialBackoff):
        policy.exponential_backoff.initial.FromMilliseconds(backoff.initial_ms)
        policy.exponential_backoff.max.FromMilliseconds(backoff.max_ms)
        policy.exponential_backoff.multiplier = backoff.multiplier
    else:
        for delay_ms in backoff.next_ms:
            policy.customized_backoff.next.add().FromMilliseconds(delay_ms)
