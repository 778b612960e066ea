"""The clients of ``apache.rocketmq.v2``: what they said of themselves, and the streams by which they are reached.

A client is one channel of the registries, under its client id. Losing its stream does not unregister it, for clients
open a new one a second later; silence for two minutes does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rmqpull_broker.core.clients.heartbeats import Heartbeat, Heartbeats
from rmqpull_broker.core.clients.members import (
    CHANNEL_EXPIRED_TIMEOUT_MS,
    SCAN_INTERVAL_MS,
    ClientChannel,
    ConsumerData,
)
from rmqpull_broker.core.clients.queue_locks import QueueLocks
from rmqpull_broker.core.clients.registries import ConsumerRegistry, ProducerRegistry
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.errors import TooManyRequests, UnrecognizedClientType
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.server.clients.telemetry_stream import TelemetryStream
from rmqpull_broker.server.clock import Clock, Timer
from rmqpull_broker.server.wire.limits import CLIENTS_MAX, TELEMETRY_STREAMS_MAX


class Clients:
    """All clients of one broker. Belongs to the event loop.

    Arguments: the clock, and the broker's ``notifyConsumerIdsChangedEnable``. The CHANGE events of the registries stop
    here: ``apache.rocketmq.v2`` has no word for them.
    """

    def __init__(self, clock: Clock, *, notify_consumer_ids_changed: bool = True) -> None:
        self._clock = clock
        self.consumers = ConsumerRegistry(notify_consumer_ids_changed=notify_consumer_ids_changed)
        self.producers = ProducerRegistry()
        self.locks = QueueLocks()
        self._heartbeats = Heartbeats(self.consumers, self.producers)
        self._profiles: dict[str, tuple[ClientProfile, int]] = {}
        self._streams: dict[str, TelemetryStream] = {}
        self._open_streams: set[TelemetryStream] = set()
        self._timer: Timer | None = None

    def _watch(self) -> None:
        """Looks for silent clients in 10 s, and every 10 s after that as long as somebody is there."""
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.passing_ms() + SCAN_INTERVAL_MS, self._scan)

    def _scan(self) -> None:
        self._timer = None
        now_ms = self._clock.wall_ms()
        self.consumers.expire(now_ms)
        self.producers.expire(now_ms)
        for client_id, (_, seen_ms) in list(self._profiles.items()):
            if now_ms - seen_ms > CHANNEL_EXPIRED_TIMEOUT_MS:
                del self._profiles[client_id]
                if client_id in self._streams:
                    self._streams[client_id].end()
        if self._profiles or not self.consumers.is_empty:
            self._watch()

    # --- presence --------------------------------------------------------------------------------------------------

    def introduce(self, profile: ClientProfile, groups: Iterable[GroupConfig]) -> None:
        """Takes in a client's settings; ``groups`` are those that exist. Raises TooManyRequests."""
        client_id = profile.channel.client_id
        if client_id not in self._profiles and len(self._profiles) >= CLIENTS_MAX:
            raise TooManyRequests(f"{CLIENTS_MAX} clients are connected already; come back later")
        now_ms = self._clock.wall_ms()
        consumers = () if profile.consumer is None else (profile.consumer,)
        heartbeat = Heartbeat(profile.channel, consumers, producer_groups=profile.topics)
        self._heartbeats.take(heartbeat, groups, now_ms)
        self._profiles[client_id] = profile, now_ms
        self._watch()

    def profile(self, client_id: str) -> ClientProfile:
        """What the client said of itself.

        Raises UnrecognizedClientType for a client without settings, or of a type that is not served (rules 5.10).
        """
        if client_id not in self._profiles:
            raise UnrecognizedClientType("cannot find client settings for this client")
        profile, _ = self._profiles[client_id]
        if not profile.is_recognized:
            raise UnrecognizedClientType(profile.client_type)
        return profile

    def profiles(self) -> list[ClientProfile]:
        """Every client that sent its settings and is not gone, by client id."""
        return [self._profiles[client_id][0] for client_id in sorted(self._profiles)]

    def seen_ms(self, client_id: str) -> int:
        """When a client of :meth:`profiles` sent its settings or a heartbeat last (milliseconds since the epoch)."""
        return self._profiles[client_id][1]

    def refresh(self, profile: ClientProfile, group: GroupConfig | None) -> None:
        """Takes in a heartbeat. A consumer is one of ``group``, which leaves the group's subscriptions alone."""
        now_ms = self._clock.wall_ms()
        for topic in profile.topics:
            self.producers.register(topic, profile.channel, now_ms)
        if profile.consumer is not None and group is not None:
            consumer: ConsumerData = replace(profile.consumer, group=group.name)
            notify = group.notify_consumer_ids_changed_enable
            self.consumers.register(consumer, profile.channel, now_ms, notify=notify, without_sub=True)
        self._profiles[profile.channel.client_id] = profile, now_ms
        self._watch()

    def terminate(self, client_id: str, group: GroupConfig | None) -> None:
        """Forgets a client that says good-bye; ``group`` is the one that it names. Its stream is its own to close."""
        now_ms = self._clock.wall_ms()
        self._profiles.pop(client_id, None)
        if group is not None:
            notify = group.notify_consumer_ids_changed_enable
            self.consumers.unregister(group.name, client_id, now_ms, notify=notify)
        self.consumers.channel_closed(client_id, now_ms)
        self.producers.channel_closed(client_id)

    # --- streams ---------------------------------------------------------------------------------------------------

    def open_stream(self, client_id: str) -> TelemetryStream:
        """A new stream of a client; commands go to the newest. Raises TooManyRequests."""
        if len(self._open_streams) >= TELEMETRY_STREAMS_MAX:
            raise TooManyRequests(f"{TELEMETRY_STREAMS_MAX} telemetry streams are open already; come back later")
        stream = self._streams[client_id] = TelemetryStream(client_id)
        self._open_streams.add(stream)
        return stream

    def close_stream(self, stream: TelemetryStream) -> None:
        """Forgets a stream that is over."""
        stream.end()
        self._open_streams.discard(stream)
        if self._streams.get(stream.client_id) is stream:
            del self._streams[stream.client_id]

    def close(self) -> None:
        """Ends every stream, and looks for nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
        for stream in self._open_streams:
            stream.end()

    def send(self, client_id: str, command: Any) -> bool:
        """Leaves a TelemetryCommand for a client; False when it cannot be reached now."""
        stream = self._streams.get(client_id)
        return stream is not None and stream.offer(command)

    def one_of_producers(self, topic: str) -> str | None:
        """The client id of one reachable producer of a topic, each in its turn; None without one (rules 5.14)."""
        producer = self.producers.next_producer(topic, self._is_reachable)
        return None if producer is None else producer.client_id

    def _is_reachable(self, channel: ClientChannel) -> bool:
        stream = self._streams.get(channel.client_id)
        return stream is not None and stream.takes_commands
