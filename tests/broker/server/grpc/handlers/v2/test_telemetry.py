"""Telemetry over gRPC: settings and their responses, and the end of streams (rules 5.7)."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Iterable

import pytest

from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.shares import Shares
from rmqpull_broker.core.state.facts import GroupPut
from rmqpull_broker.server import clients, limits
from rmqpull_broker.server.grpc.handlers.v2.telemetry import telemetry
from rmqpull_broker.server.runtime.service import Service
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.handlers import HandlerHarness
from tests.harness.rpc_client import Connect, OpenTelemetryStream, RpcClient, make_settings

FAILED = "process client telemetryCommand failed. "


def told(client: RpcClient, settings: v2.Settings) -> v2.Settings:
    """The response to settings; checks that every official client accepts it."""
    stream = client.open_stream("Telemetry")
    stream.send(service.TelemetryCommand(settings=settings))
    answer = stream.receive()
    stream.cancel()
    assert answer.status.code == v2.Code.OK
    assert answer.settings.WhichOneof("pub_sub") == settings.WhichOneof("pub_sub")
    assert not answer.settings.metric.on
    return answer.settings  # type: ignore[no-any-return]


def ending(client: RpcClient, *commands: service.TelemetryCommand) -> tuple[str, str]:
    """The code and details with which a stream of these commands ends."""
    stream = client.open_stream("Telemetry")
    for command in commands:
        stream.send(command)
    return stream.outcome()


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topics", [["orders"], ["orders", "unknown"], []])
def test_a_producer_gets_settings_for_sending(client: RpcClient, topics: list[str]) -> None:
    settings = told(client, make_settings("PRODUCER", *topics))
    assert [topic.name for topic in settings.publishing.topics] == topics
    assert (settings.publishing.max_body_size, settings.publishing.validate_message_type) == (4_194_304, True)
    policy = settings.backoff_policy
    backoff = policy.exponential_backoff
    assert policy.WhichOneof("strategy") == "exponential_backoff"
    assert (policy.max_attempts, backoff.initial.ToMilliseconds(), backoff.max.ToMilliseconds()) == (3, 10, 1000)
    assert backoff.multiplier == 2


@pytest.mark.parametrize("client_type", ["PUSH_CONSUMER", "SIMPLE_CONSUMER", "PULL_CONSUMER"])
def test_a_consumer_gets_settings_for_receiving(client: RpcClient, client_type: str) -> None:
    settings = told(client, make_settings(client_type, "orders", group="readers"))
    subscription, policy = settings.subscription, settings.backoff_policy
    assert (subscription.group.name, subscription.receive_batch_size, subscription.fifo) == ("readers", 32, False)
    assert subscription.long_polling_timeout.seconds == 20
    assert policy.max_attempts == 17
    assert [delay.seconds for delay in policy.customized_backoff.next][:5] == [1, 5, 10, 30, 60]
    assert len(policy.customized_backoff.next) == 18


def test_the_servers_settings_replace_the_clients(client: RpcClient) -> None:
    settings = make_settings("PUSH_CONSUMER", "orders", group="readers")
    settings.subscription.fifo = True
    settings.backoff_policy.exponential_backoff.multiplier = 9
    settings.metric.on = True
    settings.user_agent.version = "5.2.0"
    answered = told(client, settings)
    assert not answered.subscription.fifo
    assert answered.backoff_policy.WhichOneof("strategy") == "customized_backoff"
    assert answered.user_agent.version == "5.2.0"


def test_every_settings_command_is_answered_and_the_stream_stays_open(
    client: RpcClient, open_telemetry_stream: OpenTelemetryStream
) -> None:
    stream = open_telemetry_stream(client, "PRODUCER", "orders")
    stream.send(service.TelemetryCommand(settings=make_settings("PRODUCER", "orders", "clicks")))
    assert len(stream.receive().settings.publishing.topics) == 2
    stream.send(service.TelemetryCommand(thread_stack_trace=service.ThreadStackTrace(nonce="?")))
    stream.send(service.TelemetryCommand())
    stream.end()
    assert stream.outcome() == ("OK", "")


def test_a_consumers_settings_make_its_group_and_retry_topic(
    client: RpcClient, open_telemetry_stream: OpenTelemetryStream
) -> None:
    open_telemetry_stream(client, "PUSH_CONSUMER", "orders", group="readers")
    resource = v2.Resource(name="%RETRY%readers")
    assert client.code("QueryRoute", service.QueryRouteRequest(topic=resource)) == "OK"


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_settings_need_the_type_of_the_client(client: RpcClient) -> None:
    code, details = ending(client, service.TelemetryCommand(settings=v2.Settings()))
    assert (code, details) == ("INVALID_ARGUMENT", "there is no publishing or subscription data in settings")


@pytest.mark.parametrize(
    ("client_type", "topic", "group", "code", "reason"),
    [
        ("PRODUCER", "a.b", "", "INVALID_ARGUMENT", "The specified topic[a.b] contains illegal characters"),
        ("PRODUCER", "TBW102", "", "INVALID_ARGUMENT", "cannot access system topic"),
        ("PUSH_CONSUMER", "orders", "a.b", "INVALID_ARGUMENT", "the specified group[a.b] contains illegal characters"),
        ("PUSH_CONSUMER", "orders", "CID_RMQ_SYS_X", "INVALID_ARGUMENT", "cannot use system consumer group"),
        (
            "LITE_PUSH_CONSUMER",
            "orders",
            "readers",
            "INTERNAL",
            "Client type is not consumer, type: LITE_PUSH",
        ),
        ("LITE_SIMPLE_CONSUMER", "orders", "readers", "INTERNAL", "Client type is not consumer"),
        ("PRODUCER", "orders", "readers", "INTERNAL", "Client type is not consumer, type: PRODUCER"),
    ],
)
def test_bad_settings_end_the_stream(
    client: RpcClient, client_type: str, topic: str, group: str, code: str, reason: str
) -> None:
    settings = make_settings(client_type, topic, group=group)
    seen, details = ending(client, service.TelemetryCommand(settings=settings))
    assert (seen, details[: len(FAILED + reason)]) == (code, FAILED + reason)


def test_bars_alone_are_not_a_filter_and_the_pull_checks_sql(client: RpcClient) -> None:
    bars = v2.FilterExpression(type=v2.FilterType.TAG, expression="||")
    settings = make_settings("PUSH_CONSUMER", "orders", group="readers", expression=bars)
    outcome = ending(client, service.TelemetryCommand(settings=settings))
    assert outcome == ("INVALID_ARGUMENT", f"{FAILED}expression format is not correct")
    malformed = v2.FilterExpression(type=v2.FilterType.SQL, expression="a =")
    told(client, make_settings("PUSH_CONSUMER", "orders", group="readers", expression=malformed))


def test_an_unknown_client_type_is_named_by_its_number(client: RpcClient) -> None:
    settings = make_settings("PUSH_CONSUMER", "orders", group="readers")
    settings.client_type = 99
    _, details = ending(client, service.TelemetryCommand(settings=settings))
    assert details == f"{FAILED}Client type is not consumer, type: 99"


def test_a_stream_without_a_client_id_is_refused_and_ends(broker: RunningBroker, connect: Connect) -> None:
    stream = connect(broker.endpoints, client_id="").open_stream("Telemetry")
    assert stream.receive().status.code == v2.Code.CLIENT_ID_REQUIRED
    assert stream.outcome() == ("OK", "")


def test_settings_have_limits(client: RpcClient) -> None:
    many = make_settings("PRODUCER", *(f"topic-{number}" for number in range(limits.SUBSCRIPTIONS_MAX + 1)))
    chatty = make_settings("PRODUCER", "orders")
    chatty.client_properties.update({str(number): "" for number in range(33)})
    heavy = make_settings("PRODUCER", "orders")
    heavy.user_agent.platform = "x" * limits.CLIENT_SETTINGS_BYTES_MAX
    reasons = [ending(client, service.TelemetryCommand(settings=settings)) for settings in (many, chatty, heavy)]
    assert [code for code, _ in reasons] == ["INVALID_ARGUMENT"] * 3
    said = ("1001 topics are above the max 1000", "33 client properties", "bytes are above the max 262144")
    assert all(part in details for part, (_, details) in zip(said, reasons, strict=True))


@pytest.mark.parametrize("shares", ["_client_shares", "_stream_shares"])
def test_clients_and_streams_have_limits(
    shares: str,
    broker: RunningBroker,
    connect: Connect,
    open_telemetry_stream: OpenTelemetryStream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker._server.clients, shares, Shares(1))
    open_telemetry_stream(connect(broker.endpoints, "first"), "PRODUCER", "orders")
    second = connect(broker.endpoints, "second")
    code, details = ending(second, service.TelemetryCommand(settings=make_settings("PRODUCER", "orders")))
    assert (code, "1 " in details, "try again later" in details) == ("INVALID_ARGUMENT", True, True)


def test_an_unexpected_error_ends_the_stream_as_internal(client: RpcClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqpull_broker.server.grpc.handlers.v2.telemetry._copy", lambda _: 1 // 0)
    code, details = ending(client, service.TelemetryCommand(settings=make_settings("PRODUCER", "orders")))
    assert (code, details) == ("INTERNAL", "ZeroDivisionError: integer division or modulo by zero")


def test_a_client_that_disconnects_leaves_no_stream(
    client: RpcClient, open_telemetry_stream: OpenTelemetryStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    close_stream = clients.Clients.close_stream

    def close_and_tell(self: clients.Clients, stream: clients.TelemetryStream) -> None:
        close_stream(self, stream)
        left.put(stream.client_id)

    monkeypatch.setattr(clients.Clients, "close_stream", close_and_tell)
    open_telemetry_stream(client, "PRODUCER", "orders").cancel()
    assert left.get(timeout=60) == "tester"


def test_a_stopping_broker_ends_its_streams(connect: Connect, open_telemetry_stream: OpenTelemetryStream) -> None:
    with running_broker(topics={"orders": 1}) as broker:
        stream = open_telemetry_stream(connect(broker.endpoints), "PRODUCER", "orders")
    assert stream.outcome() == ("OK", "")


def test_response_headers_are_sent_first(client: RpcClient) -> None:
    stream = client.open_stream("Telemetry")
    stream.await_headers()
    stream.end()
    assert stream.outcome() == ("OK", "")


# --- without gRPC: states that cannot be set up on a running broker ---------------------------------------------------


async def said(*settings: v2.Settings) -> AsyncIterator[service.TelemetryCommand]:
    for part in settings:
        yield service.TelemetryCommand(settings=part)


def answers(handlers: HandlerHarness, *settings: v2.Settings) -> list[v2.Settings]:
    async def open_stream() -> list[v2.Settings]:
        responses = telemetry(handlers.service, said(*settings), handlers.caller())
        answered = [response.settings async for response in responses]
        await handlers.group_commit.close()
        return answered

    return asyncio.run(open_stream())


def test_a_group_that_consumes_in_order_gets_fifo_settings() -> None:
    handlers = HandlerHarness()
    handlers.state.apply([GroupPut(GroupConfig("readers", consume_message_orderly=True, retry_max_times=4))])
    (answered,) = answers(handlers, make_settings("PUSH_CONSUMER", "orders", group="readers"))
    assert answered.subscription.fifo
    assert answered.backoff_policy.max_attempts == 5


def test_the_settings_of_a_client_are_registered() -> None:
    handlers = HandlerHarness()
    reds = v2.FilterExpression(type=v2.FilterType.TAG, expression="red || blue")
    answers(handlers, make_settings("PULL_CONSUMER", "orders", group="readers", expression=reds))
    info = handlers.clients.consumers.find_consumer_group("readers")
    assert info is not None
    assert [(c.client_id, c.language, c.version) for c in info.channels] == [("tester", "PYTHON", "5.1.2")]
    subscription = info.subscription("orders")
    assert subscription is not None
    assert subscription.tags == {"red", "blue"}
    assert (subscription.expression_type, subscription.sub_version) == ("TAG", handlers.clock.wall_ms())


def test_a_producer_is_a_member_of_one_group_per_topic() -> None:
    handlers = HandlerHarness()
    answers(handlers, make_settings("PRODUCER", "orders", "clicks", "orders"))
    assert handlers.clients.producers.groups() == ["clicks", "orders"]


def test_a_client_of_a_group_that_must_not_be_created_keeps_its_settings() -> None:
    handlers = HandlerHarness(properties=BrokerProperties(auto_create_subscription_group=False))
    settings = make_settings("SIMPLE_CONSUMER", "orders", group="readers")
    settings.subscription.long_polling_timeout.FromSeconds(5)
    own = v2.Settings()
    own.CopyFrom(settings)
    own.backoff_policy.max_attempts = 2
    filled, kept = answers(handlers, settings, own)
    assert (filled.subscription.long_polling_timeout.seconds, filled.subscription.receive_batch_size) == (5, 32)
    assert (filled.backoff_policy.max_attempts, kept.backoff_policy.max_attempts) == (17, 2)
    assert handlers.clients.consumers.find_consumer_group("readers") is None


def test_a_client_that_does_not_read_its_responses_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "COMMANDS_WAITING_MAX", 0)
    with pytest.raises(Exception, match="the client has not read the responses to earlier settings"):
        answers(HandlerHarness(), make_settings("PRODUCER", "orders"))


def test_settings_are_kept_before_their_group_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's client receives before it gets the response to its settings."""
    seen = []

    async def ensure_groups(service: Service, names: Iterable[str]) -> list[GroupConfig]:
        seen.append((service.clients.has_profile("tester"), *names))
        return [GroupConfig(name) for name in names]

    monkeypatch.setattr(Service, "ensure_groups", ensure_groups)
    answers(HandlerHarness(), make_settings("SIMPLE_CONSUMER", "orders", group="readers"))
    assert seen == [(True, "readers")]
