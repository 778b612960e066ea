"""A consumer that its user polls: RocketMQ's ``DefaultLitePullConsumer`` for Python (rules 1.17)."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import TracebackType
from typing import NoReturn

import pyarrow as pa

from rmqpull_client.connection import Connection
from rmqpull_client.consumers.fetching import Fetcher
from rmqpull_client.consumers.group_offsets import GroupOffsets
from rmqpull_client.consumers.inbox import Inbox
from rmqpull_client.consumers.member import CALL_TIMEOUT_MS, Identity, Member
from rmqpull_client.consumers.messages import ReceivedMessage, make_messages
from rmqpull_client.consumers.names import check_group, check_topic, make_member_id
from rmqpull_client.consumers.owned_queues import OwnedQueues
from rmqpull_client.consumers.settings import LitePullSettings
from rmqpull_client.errors import BrokerUnavailable, OptionError
from rmqpull_client.model import EVERYTHING, Bounds, MessageFilter, MessageQueue
from rmqpull_client.transports.remoting.network.channel import RemotingChannel, get_remoting_channel
from rmqpull_client.transports.remoting.offset_queries import BoundsQuery, find_offsets_at
from rmqpull_proto.columns import add_place, select_pulled

POLL_TIMEOUT_MS = 5_000
POLL_MESSAGES = 32
_EXCLUSIVE = "Subscribe and assign are mutually exclusive."
_NO_QUEUE = MessageQueue("", "", 0)


class LitePullConsumer:
    """A member of a consumer group whose user polls for messages.

    Either :meth:`subscribe` to topics, of whose queues the group's members get equal shares, or :meth:`assign` queues.
    Then :meth:`start`, or use it in a ``with`` block, and poll::

        with LitePullConsumer("127.0.0.1:9876", "readers") as consumer:
            consumer.subscribe("orders")
            while True:
                for message in consumer.poll():
                    print(message.body)

    Messages are delivered at least once. What a poll returned counts as consumed when the next one is called. Its
    consumer offset is then set every five seconds, and when the consumer is closed. One thread uses a consumer.

    Args:
        connection: The cluster: a :class:`~rmqpull_client.Connection` with ``name_servers``, or just these.
        group: The consumer group.
        settings: See :class:`LitePullSettings`.

    Methods raise OptionError for what cannot be used, BrokerUnavailable if no server responds in time, and
    RequestRefused.
    """

    def __init__(self, connection: Connection | str, group: str, settings: LitePullSettings | None = None) -> None:
        self._connection = Connection(name_servers=connection) if isinstance(connection, str) else connection
        if not self._connection.name_servers:
            raise OptionError("A consumer needs name_servers: it speaks RocketMQ's remoting protocol, not gRPC.")
        check_group(group)
        self._settings = settings or LitePullSettings()
        self._settings.check()
        self._group = group
        self._columns = (*self._settings.columns, "queueOffset") if self._settings.columns else ()
        self._pid = os.getpid()
        self._channel = get_remoting_channel(self._connection)
        self._offsets = GroupOffsets(self._channel, group, self._settings)
        # The member's thread must not be late with heartbeats.
        patience = replace(self._connection, request_timeout_ms=CALL_TIMEOUT_MS, server_away_timeout_ms=0)
        self._member_channel = RemotingChannel(patience)
        self._queues = OwnedQueues(group, self._settings, GroupOffsets(self._member_channel, group, self._settings))
        self._assigned: list[MessageQueue] | None = None
        self._member: Member | None = None
        self._inbox: Inbox | None = None
        self._commit_due_s = 0.0
        self._is_closed = False

    def __enter__(self) -> LitePullConsumer:
        if self._inbox is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What the failed block had got last does not count as consumed.
        self._close(is_consumed=kind is None)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A LitePullConsumer cannot be pickled: it has connections. Make one in each process.")

    # --- what to read -------------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, message_filter: MessageFilter | str = EVERYTHING) -> None:
        """Reads a topic through a filter: a MessageFilter, or tags such as ``"paid || sent"``.

        A consumer that has started joins the topic at once. Raises OptionError after :meth:`assign`.
        """
        check_topic(topic)
        own = MessageFilter(message_filter) if isinstance(message_filter, str) else message_filter
        with self._queues.lock:
            if self._assigned is not None:
                raise OptionError(_EXCLUSIVE)
            self._queues.filters = {**self._queues.filters, topic: own}
            self._queues.positions.renew()
        self._hurry()

    def unsubscribe(self, topic: str) -> None:
        """Stops reading a topic.

        The members of a group should have the same topics: its queues go to others only when it has left the group.
        """
        with self._queues.lock:
            self._queues.filters = {name: own for name, own in self._queues.filters.items() if name != topic}
            self._queues.positions.drop([queue for queue in self._queues.positions.queues if queue.topic == topic])
        self._hurry()

    def assign(self, queues: Collection[MessageQueue], message_filter: MessageFilter | str = EVERYTHING) -> None:
        """Reads these queues, whatever other members of the group do. Raises OptionError after :meth:`subscribe`."""
        own = MessageFilter(message_filter) if isinstance(message_filter, str) else message_filter
        with self._queues.lock:
            if self._member is not None or (self._queues.filters and self._assigned is None):
                raise OptionError(_EXCLUSIVE)
            self._assigned = sorted(set(queues))
            self._queues.filters = {queue.topic: own for queue in self._assigned}
            self._queues.positions.renew()
        if self._inbox is not None:
            self._take_assigned()

    def list_queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues of a topic that can be read. Raises TopicNotFound."""
        self._require_process()
        return sorted(self._channel.routes.get_route(topic).list_readable(topic))

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that the consumer owns now."""
        return self._queues.positions.queues

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Joins the group, and takes a share of the queues. Raises TopicNotFound for a subscribed topic."""
        self._require_process()
        if self._inbox is not None or self._is_closed:
            raise OptionError("The LitePullConsumer service state not OK, maybe started once, or closed: make another.")
        settings = self._settings
        fetcher = Fetcher(
            self._channel,
            self._group,
            self._columns,
            settings.flow,
            lambda topic: self._queues.filters.get(topic, EVERYTHING),
            lambda group, queue, offset: self._queues.reset({queue: offset}),
            lambda queue, offset: inbox.pass_over(queue, offset),
        )
        inbox = self._inbox = Inbox(fetcher, self._queues.positions, self._queues.lock)
        self._commit_due_s = time.monotonic() + settings.auto_commit_interval_ms / 1000
        try:
            if self._assigned is not None:
                self._take_assigned()
            else:
                self._join()
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Commits what was polled, if ``auto_commit`` is set, and leaves the group. A second call does nothing."""
        self._close(is_consumed=True)

    def _close(self, *, is_consumed: bool) -> None:
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        try:
            if self._inbox is not None and self._settings.auto_commit:
                self._set_offsets(is_consumed=is_consumed)
        finally:
            self._end()

    def _end(self) -> None:
        self._is_closed = True
        try:
            if self._member is not None:
                self._member.leave()
        finally:
            self._member_channel.close()
            if self._inbox is not None:
                self._inbox.close()

    # --- messages -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, max_messages: int = POLL_MESSAGES) -> list[ReceivedMessage]:
        """Returns the next messages, at most ``max_messages``, or none within the time.

        Messages of a queue come in order. They become objects only now.
        """
        if max_messages < 1:
            raise OptionError(f"max_messages is {max_messages}: use 1 or more")
        rows = self._begin_poll().take(timeout_ms, max_messages)
        return [message for queue, batch in rows for message in make_messages(queue, batch)]

    def poll_columns(self, timeout_ms: int = POLL_TIMEOUT_MS) -> pa.Table:
        """Returns the next messages, some ten thousand at most, as a table of Arrow: without an object for each.

        Its columns are topic, brokerName, queueId and queueOffset, and those of ``settings.columns``. It has no rows if
        there was no message within the time.
        """
        if rows := self._begin_poll().take(timeout_ms):
            return pa.Table.from_batches([add_place(queue, batch) for queue, batch in rows])
        nothing = pa.RecordBatch.from_pylist([], schema=select_pulled(self._columns))
        return pa.Table.from_batches([add_place(_NO_QUEUE, nothing)])

    def _begin_poll(self) -> Inbox:
        inbox = self._require_running()
        if self._has_lost_all():
            self._queues.lose_all()
            self._hurry()
        with self._queues.lock:
            self._queues.positions.mark_consumed()
        now_s = time.monotonic()
        if self._settings.auto_commit and now_s >= self._commit_due_s:
            self._commit_due_s = now_s + self._settings.auto_commit_interval_ms / 1000
            self._set_offsets(is_consumed=False)  # what was polled before is
        return inbox

    # --- positions ----------------------------------------------------------------------------------------------------

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continues at an offset of an owned queue. Raises OptionError for another queue or an offset that it lacks."""
        bounds = self._query_bounds(queue)
        if bounds.clamp(offset) != offset:
            raise OptionError(
                f"Seek offset illegal, seek offset = {offset}, min offset = {bounds.min_offset}, max offset = "
                f"{bounds.max_offset}"
            )
        self._move(queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continues at the first message of an owned queue. Raises OptionError for another one."""
        self._move(queue, self._query_bounds(queue).min_offset)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continues behind the last message of an owned queue. Raises OptionError for another one."""
        self._move(queue, self._query_bounds(queue).max_offset)

    def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Continues at the first message of an owned queue that was stored at a time or later. Raises OptionError."""
        self._move(queue, self.find_offset_at(queue, timestamp_ms))

    def find_offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the offset of the first message that was stored at a time or later, or the max offset."""
        self._require_process()
        return find_offsets_at(self._channel, {queue: timestamp_ms}, self._group)[queue]

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Stops reading from owned queues, until :meth:`resume`."""
        with self._queues.lock:
            self._queues.positions.pause(queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Reads from queues again."""
        with self._queues.lock:
            self._queues.positions.resume(queues)

    def get_position(self, queue: MessageQueue) -> int:
        """Returns the offset of the next message of an owned queue. Raises OptionError for another one."""
        position = self._queues.positions.get(queue)
        if position is None:
            raise self._make_not_owned(queue)
        return position

    def get_committed(self, queue: MessageQueue) -> int | None:
        """Returns the group's consumer offset of a queue, as its broker has it; None without one."""
        self._require_process()
        return self._offsets.get(queue)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Sets consumer offsets, and returns when the brokers have them.

        Without ``offsets``, all that polls have returned counts as consumed. Queues that the consumer does not own are
        left out: others set their offsets. So is an offset before the one that a former owner of the queue has set.
        Raises OptionError for a negative offset, and BrokerUnavailable if brokers have forgotten the member.
        """
        self._require_running()
        if negative := [queue for queue, offset in (offsets or {}).items() if offset < 0]:
            raise OptionError(f"the offset of {negative[0]} is below 0")
        if self._has_lost_all():
            raise BrokerUnavailable(
                f"Brokers have accepted no heartbeat of consumer group {self._group} for two minutes, so the offsets "
                "were not set. The next poll joins the group again."
            )
        if offsets is None:
            self._set_offsets(is_consumed=True)
        else:
            self._offsets.set(self._queues.positions, self._queues.lock, offsets)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _set_offsets(self, *, is_consumed: bool) -> None:
        """Sets the offsets behind what is consumed, also behind the last poll if that ``is_consumed``."""
        with self._queues.lock:
            if is_consumed:
                self._queues.positions.mark_consumed()
            offsets = self._queues.positions.list_unset()
        if not self._has_lost_all():
            self._offsets.set(self._queues.positions, self._queues.lock, offsets)

    def _has_lost_all(self) -> bool:
        return self._member is not None and bool(self._queues.filters) and self._member.is_forgotten

    def _join(self) -> None:
        identity = Identity(
            self._group, make_member_id(self._connection), "CONSUME_ACTIVELY", self._settings.consume_from_where
        )
        self._member = Member(self._member_channel, identity, self._settings.strategy, self._queues)
        self._member.join()

    def _take_assigned(self) -> None:
        assert self._assigned is not None
        owned = self._queues.positions.queues
        starts = self._offsets.find_starts([queue for queue in self._assigned if queue not in owned])
        with self._queues.lock:
            self._queues.positions.drop(owned.difference(self._assigned))
            self._queues.positions.add(starts)

    def _query_bounds(self, queue: MessageQueue) -> Bounds:
        self._require_running()
        return BoundsQuery(self._channel).query_queues([queue])[queue]

    def _move(self, queue: MessageQueue, offset: int) -> None:
        with self._queues.lock:
            if not self._queues.positions.move(queue, offset):
                raise self._make_not_owned(queue)

    def _make_not_owned(self, queue: MessageQueue) -> OptionError:
        return OptionError(f"The message queue is not in assigned list, may be rebalancing, message queue: {queue}")

    def _hurry(self) -> None:
        if self._member is not None:
            self._member.hurry()

    def _require_running(self) -> Inbox:
        self._require_process()
        if self._inbox is None or self._is_closed:
            raise OptionError("The consumer not running, please start it first.")
        return self._inbox

    def _require_process(self) -> None:
        if os.getpid() != self._pid:
            raise OptionError("This LitePullConsumer was made in another process: make one after the fork.")
