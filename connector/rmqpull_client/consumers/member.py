"""A member of a consumer group: it sends heartbeats, and computes its share of the queues again and again.

One thread does both. It calls servers with short timeouts, so that heartbeats are not late.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rmqpull_client.allocation.strategies import Strategy
from rmqpull_client.connection import unwrap_name, wrap_name
from rmqpull_client.consumers.core.rebalance import TopicShare, share_topic
from rmqpull_client.consumers.core.timetable import Timetable
from rmqpull_client.consumers.membership import ANSWERED_WITHIN_S, EXPIRES_S, Heartbeats
from rmqpull_client.errors import BrokerUnavailable, RmqpullError
from rmqpull_client.model import MessageFilter, MessageQueue
from rmqpull_client.transports.remoting.broker_resets import read_offsets
from rmqpull_client.transports.remoting.consumer_groups import ConsumerGroups
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_client.transports.remoting.network.servers import NotLocatedYet
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData, Subscription

HEARTBEAT_S, REBALANCE_S = 30.0, 20.0
"""How often a member does so, as Java's clients."""
AGAIN_S = 1.0
"""The pause before a heartbeat after a lost connection, and before a rebalance after one that failed."""
CALL_TIMEOUT_MS = 3_000
_LEFT_WITHIN_S = 10.0
_LOOK_S = 0.25
"""How often the thread looks whether it is to do something sooner."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """Who a member is. ``consume_type`` and ``consume_from_where`` are RocketMQ's names."""

    group: str
    client_id: str
    consume_type: str
    consume_from_where: str


class Owner(Protocol):
    """Who has the queues of a member."""

    def get_filters(self) -> Mapping[str, MessageFilter]:
        """Returns the subscribed topics with their filters."""

    def take_shares(self, shares: Sequence[TopicShare]) -> None:
        """Takes and drops queues after a round of rebalancing."""

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continues at offsets to which a broker has reset the group."""

    def doubt(self, broker_name: str) -> None:
        """Notes that others may have had the queues of a broker meanwhile."""

    def lose_all(self) -> None:
        """Drops all queues: brokers have given them to others, if there are any."""


class Member:
    """A member of a group. Its thread starts with :meth:`join` and ends with :meth:`leave`.

    Args:
        channel: The calls to the cluster, with timeouts that are much shorter than the time between heartbeats.
        identity: Who the member is.
        strategy: How members share the queues of a topic.
        owner: Who has the queues. Its methods are called from the thread, and from :meth:`join`.
    """

    def __init__(
        self,
        channel: RemotingChannel,
        identity: Identity,
        strategy: Strategy,
        owner: Owner,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel = channel
        self._identity = identity
        self._strategy = strategy
        self._owner = owner
        self._clock = clock
        self._groups = ConsumerGroups(channel)
        self._heartbeats = Heartbeats(channel, self._make_body, self._answer, self._note_lost)
        # In this order: brokers have the heartbeats of this member before it asks for the members.
        self._timetable = Timetable(
            {"heartbeat": HEARTBEAT_S, "reconnect": math.inf, "rebalance": REBALANCE_S}, clock()
        )
        self._versions: dict[tuple[str, MessageFilter], int] = {}
        self._is_leaving = threading.Event()
        self._is_hurried = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rmqpull-member-{identity.group}", daemon=True)

    @property
    def is_forgotten(self) -> bool:
        """Whether brokers have accepted no heartbeat for so long that they give the member's queues to others."""
        accepted_s = self._heartbeats.accepted_s
        return accepted_s is None or self._clock() - accepted_s >= EXPIRES_S

    def join(self) -> None:
        """Sends the first heartbeats, takes the first share, and starts the thread.

        Raises TopicNotFound for a subscribed topic, BrokerUnavailable if no broker accepts the member, and what calls
        to the servers raise.
        """
        topics = sorted(self._owner.get_filters())
        for topic in topics:
            self._channel.routes.get_route(topic)
        self._timetable.take_due(self._clock())
        self._heartbeats.send(self._find_brokers())
        if topics and self._heartbeats.accepted_s is None:
            raise BrokerUnavailable(
                f"No broker of the cluster at {self._channel.endpoints} has accepted a heartbeat of consumer group "
                f"{self._identity.group} within {ANSWERED_WITHIN_S:g} s. Check that the brokers of "
                f"{', '.join(topics)} are running."
            )
        self._rebalance()
        self._thread.start()

    def hurry(self) -> None:
        """Makes the thread send heartbeats and rebalance now: subscriptions have changed."""
        self._is_hurried.set()

    def leave(self) -> None:
        """Unregisters from the brokers, so that others take the queues at once, and ends the thread."""
        self._is_leaving.set()
        if self._thread.is_alive():
            self._thread.join(_LEFT_WITHIN_S)
        self._heartbeats.leave({"clientID": self._identity.client_id, "consumerGroup": self._identity.group})

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_leaving.is_set():
            try:
                self._step()
            except RmqpullError as error:
                _logger.warning("Consumer group %s: %s", self._identity.group, error)
                for name in ("reconnect", "rebalance"):
                    self._timetable.hurry(name, self._clock() + AGAIN_S)
            except Exception:
                # A thread that ends would lose the queues without a word.
                _logger.exception("Consumer group %s: the member continues after an error", self._identity.group)
                self._is_leaving.wait(AGAIN_S)

    def _step(self) -> None:
        now_s = self._clock()
        if self._is_hurried.is_set():
            self._is_hurried.clear()
            for name in ("heartbeat", "rebalance"):
                self._timetable.hurry(name, now_s)
        if self.is_forgotten:
            # Before brokers know it again, so that its queues are taken anew.
            self._owner.lose_all()
        for name in self._timetable.take_due(now_s):
            if name == "rebalance":
                self._rebalance()
            else:
                self._heartbeats.send(self._find_brokers(), only_lost=name == "reconnect")
        self._heartbeats.receive(min(_LOOK_S, max(0.0, self._timetable.get_next_s() - self._clock())))

    def _note_lost(self, broker_name: str) -> None:
        """A broker forgets a member whose connection is lost, and tells others, who may take its queues."""
        self._owner.doubt(broker_name)
        self._timetable.hurry("reconnect", self._clock() + AGAIN_S)

    def _find_brokers(self) -> list[Place]:
        """Returns the brokers of the subscribed topics, slaves too."""
        places: dict[str, Place] = {}
        for topic in self._owner.get_filters():
            try:
                queues = self._list_present(topic)
            except RmqpullError as error:
                _logger.warning("Consumer group %s has no brokers of topic %s: %s", self._identity.group, topic, error)
                continue
            for queue in {queue.broker_name: queue for queue in queues}.values():
                with suppress(NotLocatedYet):
                    found = self._channel.find_places(Target.of(queue, may_use_slave=True), self._clock())
                    places.update((place.address, place) for place in found)
        return list(places.values())

    def _list_present(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that the route names now, as all members see them (rules 1.4). Raises RmqpullError."""
        route = self._channel.routes.get_route(topic)
        return [queue for queue in route.list_readable(topic) if queue.broker_name not in route.absent]

    def _make_body(self) -> bytes:
        """Writes a heartbeat. A subscription that changes gets a later version: the time in milliseconds."""
        namespace = self._channel.connection.namespace
        filters = self._owner.get_filters()
        now_ms = max(time.time_ns() // 1_000_000, max(self._versions.values(), default=0) + 1)
        self._versions = {key: self._versions.get(key, now_ms) for key in filters.items()}
        subscriptions = tuple(
            Subscription(
                wrap_name(namespace, topic),
                own.expression,
                self._versions[topic, own],
                own.expression_type,
            )
            for topic, own in sorted(filters.items(), key=lambda item: item[0])
        )
        identity = self._identity
        membership = GroupMembership(
            wrap_name(namespace, identity.group),
            identity.consume_type,
            "CLUSTERING",
            identity.consume_from_where,
            subscriptions,
        )
        return HeartbeatData(identity.client_id, (membership,)).encode()

    def _rebalance(self) -> None:
        shares = [self._share(topic) for topic in self._owner.get_filters()]
        for share in shares:
            if share.problem:
                _logger.warning("Consumer group %s keeps its queues: %s", self._identity.group, share.problem)
                self._timetable.hurry("rebalance", self._clock() + AGAIN_S)
        self._owner.take_shares(shares)

    def _share(self, topic: str) -> TopicShare:
        try:
            queues = self._list_present(topic)
            # Any broker of the topic: all have the heartbeats of all members.
            members = self._groups.list_members(self._identity.group, [random.choice(queues)]) if queues else []
        except RmqpullError as error:
            return TopicShare(topic, (), None, str(error))
        return share_topic(topic, queues, members, self._identity.client_id, self._strategy)

    # --- requests of brokers ------------------------------------------------------------------------------------------

    def _answer(self, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._timetable.hurry("rebalance", self._clock())
            return None
        if request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            try:
                offsets = read_offsets(request.body)
            except WireError as error:
                _logger.warning("A reset of consumer group %s cannot be read: %s", self._identity.group, error)
                return None
            namespace = self._channel.connection.namespace
            self._owner.reset(
                {
                    queue._replace(topic=topic): offset
                    for queue, offset in offsets.items()
                    if (topic := unwrap_name(namespace, queue.topic)) is not None
                }
            )
            return None
        return request.make_response(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"request {request.code} is not served by this consumer"
        )
