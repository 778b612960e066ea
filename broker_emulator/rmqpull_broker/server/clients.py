"""The clients of both protocols: who is registered, and the streams and connections that reach them.

A client of ``apache.rocketmq.v2`` is one channel in the registries, under its client id. If it loses its stream, it
stays registered, because it opens a new one a second later. A client of the remoting protocol has a channel for each of
its connections, and leaves when the connection closes. A client that is silent for two minutes expires; with a manual
clock, not while it has a stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from rmqpull_broker.core.clients.heartbeats import Heartbeat, HeartbeatAnswer, Heartbeats
from rmqpull_broker.core.clients.members import (
    CHANNEL_EXPIRED_TIMEOUT_MS,
    SCAN_INTERVAL_MS,
    ClientChannel,
    ConsumerData,
    ConsumerIdsChanged,
    ConsumeType,
)
from rmqpull_broker.core.clients.queue_locks import QueueLocks
from rmqpull_broker.core.clients.registries import ConsumerRegistry, ProducerRegistry
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.errors import TooManyRequests, UnrecognizedClientType
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.sending.half_messages import TransactionCheck
from rmqpull_broker.core.shares import ANYBODY, Holder, Shares
from rmqpull_broker.server.clock import Clock, ManualClock, Timer
from rmqpull_broker.server.limits import CLIENTS_MAX, TELEMETRY_STREAMS_MAX
from rmqpull_broker.server.peers import Peer, Peers
from rmqpull_broker.server.questions import PrintThreadStack, Questions, VerifyMessage

CLIENT_TYPES = {ConsumeType.ACTIVELY: "PULL_CONSUMER", ConsumeType.POP: "SIMPLE_CONSUMER"}
"""The types of consumers of the remoting protocol. All others are push consumers."""
COMMANDS_WAITING_MAX = 1_000
"""Commands that a client may leave unread: limited, because an orphaned transaction is as large as its message."""


class TelemetryStream:
    """The Telemetry stream of one client: a queue of commands for it. Belongs to the event loop."""

    def __init__(self, client_id: str, holder: Holder = ANYBODY) -> None:
        self.client_id = client_id
        self.holder = holder
        self._commands: deque[Any] = deque()
        self._changed = asyncio.Event()
        self._is_ended = False
        self._error: Exception | None = None

    @property
    def takes_commands(self) -> bool:
        """Whether :meth:`offer` would accept a command."""
        return not self._is_ended and len(self._commands) < COMMANDS_WAITING_MAX

    def offer(self, command: Any) -> bool:
        """Queues a command for the client. Returns False when the stream has ended or its queue is full."""
        if not self.takes_commands:
            return False
        self._commands.append(command)
        self._changed.set()
        return True

    def end(self, error: Exception | None = None) -> None:
        """Ends the stream after the queued commands, optionally with an error. Only the first call has an effect."""
        if not self._is_ended:
            self._is_ended, self._error = True, error
            self._changed.set()

    async def commands(self) -> AsyncIterator[Any]:
        """Yields the commands in order until the stream ends. Raises the error with which it was ended."""
        while True:
            while self._commands:
                yield self._commands.popleft()
            if self._is_ended:
                break
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error


class RegisteredClient(NamedTuple):
    """A client as an administrator sees it. ``seen_ms`` is when it last sent its settings or a heartbeat."""

    channel: ClientChannel
    client_type: str
    seen_ms: int


class Clients:
    """All clients of one broker. Belongs to the event loop.

    Arguments: the clock, and the broker's ``notifyConsumerIdsChangedEnable``. The registries' CHANGE events go to the
    members that speak the remoting protocol, because ``apache.rocketmq.v2`` has no message for them.
    """

    def __init__(self, clock: Clock, *, notify_consumer_ids_changed: bool = True) -> None:
        self._clock = clock
        self.consumers = ConsumerRegistry(notify_consumer_ids_changed=notify_consumer_ids_changed)
        self.producers = ProducerRegistry()
        self.locks = QueueLocks()
        self.peers = Peers()
        self.questions = Questions()
        self._heartbeats = Heartbeats(self.consumers, self.producers)
        self._profiles: dict[str, tuple[ClientProfile, int]] = {}
        self._holders: dict[str, Holder] = {}
        self._client_shares = Shares(CLIENTS_MAX)
        self._streams: dict[str, TelemetryStream] = {}
        self._open_streams: set[TelemetryStream] = set()
        self._stream_shares = Shares(TELEMETRY_STREAMS_MAX)
        self._timer: Timer | None = None

    def _watch(self) -> None:
        """Checks for silent clients every 10 s, as long as there are clients."""
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.passing_ms() + SCAN_INTERVAL_MS, self._scan)

    def _scan(self) -> None:
        self._timer = None
        now_ms = self._clock.steady_ms()
        if isinstance(self._clock, ManualClock):
            self._keep_connected(now_ms)
        self.peers.close([*self.consumers.expire(now_ms, self._clock.wall_ms()), *self.producers.expire(now_ms)])
        for client_id, (_, seen_ms) in list(self._profiles.items()):
            if now_ms - seen_ms > CHANNEL_EXPIRED_TIMEOUT_MS:
                self._forget(client_id)
                if client_id in self._streams:
                    self._streams[client_id].end()
        if self._profiles or not self.consumers.is_empty or len(self.peers):
            self._watch()

    def _keep_connected(self, now_ms: int) -> None:
        """Counts a heartbeat for each client with a stream: it sends its own by the system's time, not a manual clock.

        Connections of the remoting protocol are closed when they are idle, and their clients connect again.
        """
        self.consumers.keep(self._streams.keys(), now_ms)
        self.producers.keep(self._streams.keys(), now_ms)
        for client_id in self._profiles.keys() & self._streams.keys():
            self._profiles[client_id] = self._profiles[client_id][0], now_ms

    # --- registration ----------------------------------------------------------------------------------------------

    def take_settings(self, profile: ClientProfile, holder: Holder = ANYBODY) -> None:
        """Keeps the settings of a client. Raises TooManyRequests when the share of ``holder`` is used up."""
        client_id = profile.channel.client_id
        if client_id not in self._profiles:
            if not self._client_shares.allows(holder):
                raise TooManyRequests(
                    f"too many clients are connected: {self._client_shares.describe(holder)}; try again later"
                )
            self._client_shares.take(holder)
            self._holders[client_id] = holder
        self._profiles[client_id] = profile, self._clock.steady_ms()
        self._watch()

    def _forget(self, client_id: str) -> None:
        self._profiles.pop(client_id, None)
        holder = self._holders.pop(client_id, None)
        if holder is not None:
            self._client_shares.give_back(holder)

    def introduce(self, profile: ClientProfile, groups: Iterable[GroupConfig]) -> None:
        """Registers a client with its settings; ``groups`` are the existing ones. Raises TooManyRequests."""
        self.take_settings(profile)
        now_ms = self._clock.steady_ms()
        consumers = () if profile.consumer is None else (profile.consumer,)
        heartbeat = Heartbeat(profile.channel, consumers, producer_groups=profile.topics)
        self.peers.notify(self._heartbeats.take(heartbeat, groups, now_ms).changes)

    def has_profile(self, client_id: str) -> bool:
        """Whether a client has sent its settings, and has not expired."""
        return client_id in self._profiles

    def find_request_timeout_ms(self, client_id: str) -> int:
        """Returns how long a client waits for responses, by its settings. 0 without settings."""
        return self._profiles[client_id][0].request_timeout_ms if client_id in self._profiles else 0

    def is_member(self, client_id: str, group: str) -> bool:
        """Whether a client of ``apache.rocketmq.v2`` is a member of a group."""
        found = self.consumers.find_consumer_group(group)
        return found is not None and client_id in found.members

    def find_profile(self, client_id: str) -> ClientProfile:
        """Finds the settings of a client.

        Raises UnrecognizedClientType for a client without settings, or of a type that is not served (rules 5.10).
        """
        if client_id not in self._profiles:
            raise UnrecognizedClientType("cannot find client settings for this client")
        profile, _ = self._profiles[client_id]
        if not profile.is_recognized:
            raise UnrecognizedClientType(profile.client_type)
        return profile

    def list_clients(self) -> list[RegisteredClient]:
        """Lists the clients of both protocols that have not expired, by client id.

        A client of the remoting protocol has the type that it would have in ``apache.rocketmq.v2``. It is one client,
        however many brokers it is connected to.
        """
        found = {
            client_id: RegisteredClient(profile.channel, profile.client_type, seen_ms)
            for client_id, (profile, seen_ms) in self._profiles.items()
        }
        for group in self.producers.groups():
            for channel in self.producers.channels(group):
                found.setdefault(
                    channel.client_id,
                    RegisteredClient(channel, "PRODUCER", self.producers.seen_ms(group, channel.channel_id)),
                )
        for info in self.consumers.list_consumer_groups():
            client_type = CLIENT_TYPES.get(info.consume_type, "PUSH_CONSUMER")
            for channel in info.channels:
                if channel.client_id not in self._profiles:
                    seen_ms = info.members.seen_ms(channel.channel_id)
                    found[channel.client_id] = RegisteredClient(channel, client_type, seen_ms)
        return [found[client_id] for client_id in sorted(found)]

    def refresh(self, profile: ClientProfile, group: GroupConfig | None) -> None:
        """Registers a heartbeat. A consumer is a member of ``group``, whose subscriptions stay as they are."""
        now_ms = self._clock.steady_ms()
        for topic in profile.topics:
            self.producers.register(topic, profile.channel, now_ms)
        if profile.consumer is not None and group is not None:
            consumer: ConsumerData = replace(profile.consumer, group=group.name)
            notify = group.notify_consumer_ids_changed_enable
            change = self.consumers.register(consumer, profile.channel, now_ms, notify=notify, without_sub=True)
            self._notify(change)
        self._profiles[profile.channel.client_id] = profile, now_ms
        self._watch()

    def terminate(self, client_id: str, group: GroupConfig | None) -> None:
        """Removes a client that leaves from the ``group`` that it names. The client closes its stream itself."""
        now_ms = self._clock.steady_ms()
        self._forget(client_id)
        if group is not None:
            notify = group.notify_consumer_ids_changed_enable
            self._notify(self.consumers.unregister(group.name, client_id, now_ms, notify=notify))
        self.peers.notify(self.consumers.channel_closed(client_id, now_ms))
        self.producers.channel_closed(client_id)

    # --- clients of the remoting protocol ---------------------------------------------------------------------------

    def take_heartbeat(self, heartbeat: Heartbeat, groups: Iterable[GroupConfig], peer: Peer) -> HeartbeatAnswer:
        """Registers the client of a HEART_BEAT, and notifies the members (rules 3.6, 3.7). Raises TooManyRequests."""
        answer = self._heartbeats.take(heartbeat, groups, self._clock.steady_ms())
        if heartbeat.consumers or heartbeat.producer_groups:
            self.peers.add(peer, heartbeat.channel.client_id)
            self._watch()
        self.peers.notify(answer.changes)
        return answer

    def leave_group(self, group: GroupConfig, channel_id: str) -> None:
        """Removes a consumer that unregisters. Notifies the other members, even if it was not one (rules 6.1)."""
        notify = group.notify_consumer_ids_changed_enable
        self._notify(self.consumers.unregister(group.name, channel_id, self._clock.steady_ms(), notify=notify))

    def connection_closed(self, channel_id: str) -> None:
        """Removes the client of a closed connection from all groups, and notifies the other members."""
        if self.peers.remove(channel_id):
            self.producers.channel_closed(channel_id)
            self.peers.notify(self.consumers.channel_closed(channel_id, self._clock.steady_ms()))

    def _notify(self, change: ConsumerIdsChanged | None) -> None:
        if change is not None:
            self.peers.notify([change])

    # --- streams ---------------------------------------------------------------------------------------------------

    def open_stream(self, client_id: str, holder: Holder = ANYBODY) -> TelemetryStream:
        """Opens a stream for a client; commands go to the newest one. Raises TooManyRequests when the share of
        ``holder`` is used up."""
        if not self._stream_shares.allows(holder):
            raise TooManyRequests(
                f"too many telemetry streams are open: {self._stream_shares.describe(holder)}; try again later"
            )
        self._stream_shares.take(holder)
        stream = self._streams[client_id] = TelemetryStream(client_id, holder)
        self._open_streams.add(stream)
        return stream

    @property
    def stream_count(self) -> int:
        """How many streams are open. A killed client has none once the broker notices that its connection is closed."""
        return len(self._open_streams)

    def close_stream(self, stream: TelemetryStream) -> None:
        """Ends and removes a stream."""
        stream.end()
        if stream in self._open_streams:
            self._open_streams.remove(stream)
            self._stream_shares.give_back(stream.holder)
        if self._streams.get(stream.client_id) is stream:
            del self._streams[stream.client_id]

    def close(self) -> None:
        """Ends every stream, and stops checking for silent clients."""
        if self._timer is not None:
            self._timer.cancel()
        for stream in self._open_streams:
            stream.end()

    def send(self, client_id: str, command: PrintThreadStack | VerifyMessage | TransactionCheck) -> bool:
        """Queues a command for a client with a stream. Returns False when the client cannot be reached now."""
        stream = self._streams.get(client_id)
        return stream is not None and stream.offer(command)

    def next_producer(self, group: str, broker_name: str) -> ClientChannel | None:
        """Returns the next reachable producer of a group, in rotation, or None (rules 3.15, 5.14).

        A client of ``apache.rocketmq.v2`` is in a group for each of its topics. A client of the remoting protocol must
        be connected to the broker that has the half message.
        """
        return self.producers.next_producer(
            group, lambda channel: channel.is_connected_to(broker_name) and self._is_reachable(channel)
        )

    def _is_reachable(self, channel: ClientChannel) -> bool:
        peer = self.peers.find(channel)
        if peer is not None:
            return peer.is_open
        stream = self._streams.get(channel.client_id)
        return stream is not None and stream.takes_commands
