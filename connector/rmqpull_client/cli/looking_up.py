"""Finds messages by key and id in the index of brokers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import click

from rmqpull_client.cli.searching import Found, order, split_rows
from rmqpull_client.errors import Unserved
from rmqpull_client.model import MessageQueue

if TYPE_CHECKING:
    from rmqpull_client.transports.port import BrokerClient
    from rmqpull_client.transports.tools_port import IndexedMessages

READ_INSTEAD = "--scan N reads that many messages of each queue instead"


@dataclass(frozen=True)
class Wanted:
    """Which messages to show: by key or id, at most ``count``, from an offset or a time in milliseconds on.

    Without offset and time they are the newest ones.
    """

    key: str | None
    msg_id: str | None
    count: int
    from_offset: int | None = None
    at_time: int | None = None

    @property
    def is_newest(self) -> bool:
        """Whether they are the newest messages, not the first ones."""
        return self.from_offset is None and self.at_time is None


class Indexed(NamedTuple):
    """Messages, oldest first, and what to do if they may not be all; empty if they are."""

    found: list[Found]
    advice: str


def look_up(client: BrokerClient, queues: Iterable[MessageQueue], wanted: Wanted) -> Indexed | None:
    """Looks up messages of these queues. Returns None, and says why, if the server keeps no index of them."""
    try:
        indexed = client.query_messages(list(queues), wanted.key, wanted.msg_id, wanted.at_time or 0)
    except Unserved as reason:
        click.echo(f"{reason}: reading the queues", err=True)
        return None
    return choose(indexed, wanted)


def choose(indexed: IndexedMessages, wanted: Wanted) -> Indexed:
    """Returns those of the messages that are wanted."""
    every = (each for queue, batch in indexed.rows.items() for each in split_rows(queue, batch))
    matching = [each for each in every if each.offset >= (wanted.from_offset or 0)]
    if wanted.is_newest:
        found = sorted(heapq.nlargest(wanted.count, matching, key=order), key=order)
    else:
        found = heapq.nsmallest(wanted.count, matching, key=order)
    if indexed.may_lack_older and not (wanted.is_newest and len(found) == wanted.count):
        return Indexed(found, f"a broker tells only of the newest messages, so there may be older ones: {READ_INSTEAD}")
    return Indexed(found, "" if found else f"brokers looked in their index: {READ_INSTEAD}")
