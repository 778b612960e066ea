"""Pulls and receives that wait, and responses that nobody reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from bench.hostile.attack import ATTACKED, QUEUES, Attack, Target
from bench.hostile.attacks.sending import fill
from bench.hostile.lines import Line, flood, flood_unread, make_request
from rmqpull_broker.server.remoting.wire.pop_headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    NotificationRequestHeader,
    PopMessageRequestHeader,
)
from rmqpull_proto.remoting.codes import RequestCode

SUSPEND, SUBSCRIPTION = 2, 4
"""Bits of a pull: it may park, and it has its own subscription."""
_LONGEST_MS = (1 << 63) - 1
_PARKED = 100_000


def make_pull(number: int, *, offset: int = 0, flags: int = SUBSCRIPTION, **others: object) -> bytes:
    """Returns a pull of a topic's queue, with a subscription of its own."""
    fields = {
        "consumerGroup": "pulling",
        "topic": ATTACKED,
        "queueId": number % QUEUES,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": 300_000,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    return make_request(RequestCode.PULL_MESSAGE, {**fields, **others})


def parked_pulls(target: Target) -> Iterator[None]:
    """Parks as many pulls as there can be, each with its own filter, and then closes all of their connections."""
    waiting = SUSPEND | SUBSCRIPTION
    lines = [Line(target.remoting) for _ in range(16)]
    yield
    while True:
        for number in range(0, _PARKED, 100):
            tags = (make_pull(number, flags=waiting, subscription=f"tag{number + one}") for one in range(100))
            lines[number // 100 % len(lines)].send(b"".join(tags))
            yield
        for line in lines:
            line.close()
        yield


def longest_pulls(target: Target) -> Iterator[None]:
    """Parks pulls for the longest time that a header holds."""
    forever = make_pull(0, flags=SUSPEND | SUBSCRIPTION, suspendTimeoutMillis=_LONGEST_MS)
    return flood_unread(target.remoting, (forever for _ in count()), window=8)


def waiting_pops(target: Target) -> Iterator[None]:
    """Lets receives of ever more groups wait, with the shortest and longest times that a header holds."""
    times = (0, -1, 60_000, _LONGEST_MS)

    def make_pop(number: int) -> bytes:
        header = PopMessageRequestHeader(
            topic=ATTACKED,
            queue_id=-1,
            consumer_group=f"popping-{number % 1_000}",
            max_msg_nums=32,
            invisible_time=times[number % 4],
            poll_time=times[number // 4 % 4],
            init_mode=1,
        )
        return make_request(RequestCode.POP_MESSAGE, header.to_fields())

    return flood_unread(target.remoting, map(make_pop, count()), lines=16)


def notifications(target: Target) -> Iterator[None]:
    """Waits for messages with notifications."""

    def make_notification(number: int) -> bytes:
        group = f"notified-{number % 1_000}"
        header = NotificationRequestHeader(topic=ATTACKED, queue_id=-1, consumer_group=group, poll_time=60_000)
        return make_request(RequestCode.NOTIFICATION, header.to_fields())

    return flood_unread(target.remoting, map(make_notification, count()), lines=16)


def in_flight(target: Target) -> Iterator[None]:
    """Receives messages and acknowledges none, in ever more groups."""
    fill(target, 5_000)

    def make_pop(number: int) -> bytes:
        header = PopMessageRequestHeader(
            topic=ATTACKED,
            queue_id=-1,
            consumer_group=f"taking-{number // 200}",
            max_msg_nums=32,
            invisible_time=300_000,
            poll_time=0,
            init_mode=0,
        )
        return make_request(RequestCode.POP_MESSAGE, header.to_fields())

    return flood(target.remoting, map(make_pop, count()), window=4)


def receipts(target: Target) -> Iterator[None]:
    """Acknowledges and changes deliveries that never happened, with receipts that are almost valid."""

    def make_receipt(number: int) -> bytes:
        parts = [number, 1_700_000_000_000 + number, 60_000, number % 9, number % 4, "broker-a", number % 9, number]
        parts[number % 8] = ("", "x", -1, _LONGEST_MS, "9" * 5_000)[number % 5]
        info = " ".join(map(str, parts))
        given = {"topic": ATTACKED, "queue_id": number % 9, "consumer_group": "acking", "extra_info": info}
        if number % 2:
            acked = AckMessageRequestHeader(**given, offset=number)  # type: ignore[arg-type]
            return make_request(RequestCode.ACK_MESSAGE, acked.to_fields())
        changed = ChangeInvisibleTimeRequestHeader(**given, offset=number, invisible_time=-1)  # type: ignore[arg-type]
        return make_request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, changed.to_fields())

    return flood(target.remoting, map(make_receipt, count()))


def unread_pulls(target: Target) -> Iterator[None]:
    """Pulls the largest responses and reads none."""
    fill(target, 5_000, body_bytes=4_000)
    return flood_unread(target.remoting, map(make_pull, count()), lines=8)


def pulls(target: Target) -> Iterator[None]:
    """Pulls the same messages again and again."""
    fill(target, 5_000, body_bytes=4_000)
    return flood(target.remoting, map(make_pull, count()), window=4)


WAITING = (
    Attack("parked-pulls", "100,000 pulls that park; then they leave", "parked pulls, by fair shares", parked_pulls),
    Attack("longest-pulls", "pulls that park for 2^63-1 ms", "parked pulls, by fair shares", longest_pulls),
    Attack("waiting-pops", "receives with all kinds of times that wait", "receives that wait", waiting_pops),
    Attack("notifications", "notifications that wait", "receives that wait", notifications),
    Attack("in-flight", "receives without acknowledgements", "messages in flight", in_flight),
    Attack("receipts", "receipts that were changed", "each is checked", receipts),
    Attack("unread-pulls", "pulls whose responses are not read", "bytes that a client has not read", unread_pulls),
    Attack("pulls", "pulls of 32 messages of 4 KB in a loop", "one request in turn", pulls),
)
