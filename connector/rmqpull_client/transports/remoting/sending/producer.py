"""Sends rows to Apache's brokers, at least once (rules 1.18, 3.10.1).

Rows become requests, the outbox says which goes out when, and an exchange sends them. Nothing runs in the background:
requests go out when a call starts, and responses are taken in while a caller waits.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from rmqpull_client.connection import wrap_name
from rmqpull_client.errors import BrokerUnavailable, RequestRefused, RmqpullError, RowsRefused
from rmqpull_client.light_queues import is_light
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.away import WAITS, TimeLimit
from rmqpull_client.transports.port import (
    SPREAD_EVENLY,
    CommitRecord,
    CommitResponse,
    ProducerAbilities,
    SliceRows,
    TopicParts,
    TransactionId,
)
from rmqpull_client.transports.property_rules import KEPT_BY_BROKERS
from rmqpull_client.transports.remoting.network import exchange
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import WRITE, Target
from rmqpull_client.transports.remoting.network.own_host import find_own_host
from rmqpull_client.transports.remoting.offset_queries import make_queue_request
from rmqpull_client.transports.remoting.sending.call_requests import Content, make_requests
from rmqpull_client.transports.remoting.sending.outbox import Outbox
from rmqpull_client.transports.remoting.sending.outgoing import MessageIds
from rmqpull_client.transports.remoting.sending.queue_choice import Turns
from rmqpull_client.transports.remoting.sending.send_outcomes import judge, make_last_error
from rmqpull_client.transports.remoting.sending.send_request import Outcome, SendCall, SendLimits, SendRequest
from rmqpull_client.transports.remoting.sending.topic_attributes import NO_ATTRIBUTES, TopicAttributes, read_attributes
from rmqpull_proto.remoting.codes import VERSION_5, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.sending_headers import SendMessageRequestHeaderV2

TOPICS_PER_CALL_MAX = 1_000

_NOT_WATCHED_S = 0.05
"""If the caller was busy for longer, that time does not count towards the limits of its requests."""
_LOOK_S = 0.1


class _TopicFacts(NamedTuple):
    """What the brokers of a topic say about it."""

    attributes: TopicAttributes
    has_timer: bool


class RemotingProducer:
    """See :class:`rmqpull_client.transports.port.Producer`. One thread uses it."""

    def __init__(
        self,
        channel: RemotingChannel,
        producer_group: str,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._channel = channel
        self._group = producer_group
        self._clock = clock
        self._now_ms = now_ms
        connection = channel.connection
        interval_s = connection.request_retry_interval_ms / 1000
        limit = TimeLimit.of(connection, 0.0)
        limits = SendLimits(limit.request_s, connection.request_retries, interval_s, limit.away_s)
        self._outbox = Outbox(Turns(random.randrange), limits)
        self._ids = MessageIds(find_own_host(connection.name_servers), os.getpid())
        self._facts: dict[str, _TopicFacts] = {}
        self._exchange: exchange.Exchange | None = None
        self._in_flight: dict[Call, SendRequest] = {}
        self._driven_s = clock()

    @property
    def abilities(self) -> ProducerAbilities:
        """What RocketMQ's brokers can do. No server is asked."""
        name_servers = self._channel.connection.name_servers
        return ProducerAbilities(
            server=f"the cluster of name server {name_servers}",
            no_columns=None,
            no_stages="RocketMQ's own brokers store each message for itself",
            create_topic=f"mqadmin updateTopic -n '{name_servers}' -c CLUSTER -t '{{topic}}'",
            allow_writes=f"mqadmin updateTopicPerm -n '{name_servers}' -c CLUSTER -t '{{topic}}' -p 6",
            compress_types=frozenset({"ZLIB", "LZ4", "ZSTD"}),
            property_rules=KEPT_BY_BROKERS,
            topics_per_call_max=TOPICS_PER_CALL_MAX,
            keeps_order=True,
        )

    # --- topics -------------------------------------------------------------------------------------------------------

    def query_message_types(self, topic: str) -> frozenset[str]:
        """Returns the message types that a topic accepts.

        A topic without the attribute ``message.type``, such as any of 4.x, takes NORMAL, FIFO and DELAY.
        """
        return self._get_facts(topic).attributes.message_types

    def count_queues(self, topic: str) -> int:
        """Returns the number of writable queues of a topic."""
        return len(self.list_queues(topic))

    def is_compacted(self, topic: str) -> bool:
        """Whether a topic keeps the newest message of each key."""
        return self._get_facts(topic).attributes.is_compacted

    def list_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Returns the writable queues of a topic, sorted. Waits for a master while there are only slaves.

        Raises TopicNotFound, RequestRefused, and BrokerUnavailable if no master comes back within the time limit.
        """
        if is_light(topic):
            raise RequestRefused(
                "ILLEGAL_TOPIC",
                f"Topic {topic} is a light message queue. Messages cannot be sent to it directly: name a topic.",
            )
        connection = self._channel.connection
        limit = TimeLimit.of(connection, self._clock())
        while True:
            known = self._channel.routes.get_route(topic)
            if queues := sorted(known.list_writable(topic)):
                return queues
            if not any(data.perm & WRITE for data in known.route.queue_datas):
                raise RequestRefused("FORBIDDEN", f"Topic {topic} at {self._channel.endpoints} has no writable queue.")
            now_s = self._clock()
            if now_s >= limit.deadline_s and not limit.extend(now_s):
                raise BrokerUnavailable(
                    f"No broker of topic {topic} at {self._channel.endpoints} has had a master within "
                    f"{limit.away_s * 1000:.0f} ms, and slaves take no messages. Check that a master is running."
                )
            WAITS.note(limit, now_s, f"a master of topic {topic}")
            self._channel.cluster.suspect(wrap_name(connection.namespace, topic))
            time.sleep(_LOOK_S)

    def has_timer(self, topic: str) -> bool:
        """Whether all brokers of a topic deliver messages at any time, and not only after fixed delays."""
        return self._get_facts(topic).has_timer

    def _get_facts(self, topic: str) -> _TopicFacts:
        if topic not in self._facts:
            self._facts[topic] = self._ask_facts(topic)
        return self._facts[topic]

    def _ask_facts(self, topic: str) -> _TopicFacts:
        """Asks all brokers of a topic. Those that do not respond are left out, unless none does.

        4.x does not know the request for attributes (3), and 4.9.0 does not even respond to it. So a request that all
        brokers know comes first, because the version of a broker is in each of its responses. A user may not be allowed
        to make these requests (16).
        """
        queues = {queue.broker_name: queue for queue in self.list_queues(topic)}
        with exchange.Exchange(self._channel) as asking:
            found = self._ask_each(
                asking, topic, {name: make_queue_request(RequestCode.GET_MAX_OFFSET, queues[name]) for name in queues}
            )
            is_new = {name: response.version >= VERSION_5 for name, response in found.items()}
            command = RemotingCommand(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
            told = self._ask_each(asking, topic, {name: command for name in found if is_new[name]})
        known = (read_attributes(response.body) for response in told.values() if response.code == ResponseCode.SUCCESS)
        return _TopicFacts(next(known, NO_ATTRIBUTES), has_timer=all(is_new.values()))

    @staticmethod
    def _ask_each(
        asking: exchange.Exchange, topic: str, commands: Mapping[str, RemotingCommand]
    ) -> dict[str, RemotingCommand]:
        """Returns the response of each broker that responds, whatever its code. Raises the first error if none does."""
        calls = {
            name: asking.start(Target(topic, name), command, accepted=exchange.ANY_CODE)
            for name, command in commands.items()
        }
        found, errors = {}, list[RmqpullError]()
        for name, call in calls.items():
            try:
                [found[name]] = asking.wait([call])
            except RmqpullError as error:
                errors.append(error)
        if errors and not found:
            raise errors[0]
        return found

    # --- calls --------------------------------------------------------------------------------------------------------

    def start_publish(
        self, parts: TopicParts, rows: pa.RecordBatch, by_keys: bool, slice_rows: SliceRows = SPREAD_EVENLY
    ) -> Callable[[], Any]:
        """Sends a batch in columns. The returned function waits until all rows are stored. See the port.

        ``slice_rows`` has no effect: see :attr:`abilities`.
        """
        call = SendCall()
        for request in make_requests(call, parts, rows, by_keys, self, self._ids, self._now_ms()):
            self._outbox.add(request)
        self._advance(0.0)
        return lambda: self._finish(call)

    def _finish(self, call: SendCall) -> None:
        while not call.is_done:
            self._advance(None)
        if self._exchange is not None and not self._in_flight:
            self._exchange.close()
            self._exchange = None
        if call.error is not None:
            raise call.error
        if call.reasons:
            reasons = dict(sorted(call.reasons.items()))
            first = next(iter(reasons.values()))
            raise RowsRefused("MESSAGE_ILLEGAL", f"{len(reasons)} rows are illegal; the first: {first}", reasons)

    def _advance(self, timeout_s: float | None) -> None:
        """Sends what may go out, waits until something happens or for ``timeout_s``, and handles responses."""
        now_s = self._clock()
        self._forgive(now_s - self._driven_s)
        if self._exchange is None:
            self._exchange = exchange.Exchange(self._channel)
        for request in list(self._outbox.take_ready(now_s)):
            self._send(request)
        self._exchange.advance(0.0)  # a refused connection shows at once
        if timeout_s is None and not any(sent.is_done for sent in self._in_flight):
            next_s = self._outbox.find_next_s()
            self._exchange.advance(None if next_s is None else max(0.0, next_s - now_s))
        for sent in [sent for sent in self._in_flight if sent.is_done]:
            self._settle(sent, self._in_flight.pop(sent))
        for request in self._outbox.find_failed():
            request.error = make_last_error(request)
            self._outbox.fail(request)
        self._driven_s = self._clock()

    def _forgive(self, away_s: float) -> None:
        """Moves all time limits by time in which nobody waited."""
        if away_s > _NOT_WATCHED_S:
            self._outbox.forgive(away_s)
            for sent in self._in_flight:
                sent.delay(away_s)

    def _send(self, request: SendRequest) -> None:
        assert self._exchange is not None, "it was opened"
        assert request.queue is not None, "the outbox has chosen it"
        command = _make_command(request, self._group, self._channel.connection.namespace, self._now_ms())
        sent = self._exchange.start(
            Target.of(request.queue),
            command,
            accepted=exchange.ANY_CODE,
            deadline_s=request.attempt_until_s,
            is_tried_once=True,
        )
        self._in_flight[sent] = request

    def _settle(self, sent: Call, request: SendRequest) -> None:
        outcome, error = judge(sent)
        if outcome is Outcome.MOVED:
            self._channel.cluster.suspect(wrap_name(self._channel.connection.namespace, request.topic))
            try:
                request.queues = self.list_queues(request.topic)
            except RmqpullError as gone:
                outcome, error = Outcome.REFUSED, gone
            if request.ordered_queue not in (None, *request.queues):
                outcome = Outcome.REFUSED
        now_s = self._clock()
        self._outbox.settle(request, outcome, error, now_s)
        if outcome is Outcome.LOST and request.limit is not None:
            WAITS.note(request.limit, now_s, sent.attempts.servers)

    # --- what RocketMQ's brokers do not have --------------------------------------------------------------------------

    def start_stage(
        self,
        transaction: TransactionId,
        stage_id: str,
        sequence: int,
        parts: TopicParts,
        rows: pa.RecordBatch,
        by_keys: bool,
        timeout_ms: int,
        slice_rows: SliceRows = SPREAD_EVENLY,
    ) -> Callable[[], Any]:
        """Raises NotImplementedError: see :attr:`abilities`."""
        raise NotImplementedError

    def keep_stages(self, transaction: TransactionId, timeout_ms: int) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError

    def commit_stages(
        self,
        transaction: TransactionId,
        staged: Sequence[tuple[str, int]],
        patience_ms: int = 0,
        record: CommitRecord | None = None,
        row_count: int | None = None,
        refuse_gap: bool = False,
    ) -> CommitResponse:
        """Raises NotImplementedError."""
        raise NotImplementedError

    def drop_stages(self, transaction: TransactionId) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError

    def start_send(self, topic: str, row: dict[str, Any]) -> Callable[[], Any]:
        """Raises NotImplementedError: rows are sent in columns."""
        raise NotImplementedError


def _make_command(request: SendRequest, group: str, namespace: str, now_ms: int) -> RemotingCommand:
    """Makes a request that cannot create its topic: it names the topic itself as the template (rules 3.9.3)."""
    content, queue = request.content, request.queue
    assert isinstance(content, Content), "make_requests has made it"
    assert queue is not None, "the outbox has chosen it"
    header = SendMessageRequestHeaderV2(
        topic=request.topic,
        producer_group=group,
        default_topic=wrap_name(namespace, request.topic),
        default_topic_queue_nums=0,
        queue_id=queue.queue_id,
        sys_flag=content.sys_flag,
        born_timestamp=now_ms,
        flag=0,
        properties=content.get_properties(),
        reconsume_times=0,
        unit_mode=False,
        batch=request.is_batch,
    )
    code = RequestCode.SEND_BATCH_MESSAGE if request.is_batch else RequestCode.SEND_MESSAGE_V2
    return RemotingCommand(code, header.to_fields(), content.make_body())
