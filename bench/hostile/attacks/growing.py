"""Requests that each leave something behind: topics, groups, offsets, locks, clients, stages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from bench.hostile.attack import ATTACKED, CLIENT_ID, QUEUES, Attack, Target
from bench.hostile.attacks.asking import make_group, make_offset, make_topic
from bench.hostile.lines import flood, make_request
from rmqpull_broker.server.remoting.wire.queue_bodies import LockRequest, QueueOfBroker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData, Subscription

_SUBSCRIPTIONS = 5_000
_LOCKED = 1_000


def new_topics(target: Target) -> Iterator[None]:
    """Creates topics."""
    return flood(target.remoting, (make_topic(f"new-{number}") for number in count()))


def wide_topics(target: Target) -> Iterator[None]:
    """Creates topics with 1,024 queues each."""
    return flood(target.remoting, (make_topic(f"wide-{number}", 1_024) for number in count()), window=2)


def new_groups(target: Target) -> Iterator[None]:
    """Creates consumer groups."""
    return flood(target.remoting, (make_group(f"new-{number}") for number in count()))


def stray_offsets(target: Target) -> Iterator[None]:
    """Sets offsets for queues that do not exist, and for groups that nobody uses."""
    requests = (make_offset(f"stray-{number % 5_000}", f"none-{number % 97}", number) for number in count())
    return flood(target.remoting, requests)


def many_offsets(target: Target) -> Iterator[None]:
    """Sets offsets of ever more groups for queues that exist."""
    requests = (make_offset(f"many-{number // QUEUES}", ATTACKED, number % QUEUES, 0) for number in count())
    return flood(target.remoting, requests)


def _beat(number: int, subscriptions: int, groups: int = 1) -> bytes:
    each = subscriptions // groups
    topics = tuple(Subscription(f"subscribed-{topic}", f"tag{number}", number) for topic in range(each))
    members = tuple(GroupMembership(f"beating-{number}-{group}", subscriptions=topics) for group in range(groups))
    data = HeartbeatData(f"{CLIENT_ID}-{number}", members, tuple(f"p-{number}-{group}" for group in range(groups)))
    return make_request(RequestCode.HEART_BEAT, None, data.encode())


def heartbeats(target: Target) -> Iterator[None]:
    """Sends heartbeats with the most subscriptions, whose versions change."""
    beats = [_beat(number, _SUBSCRIPTIONS) for number in range(4)]
    return flood(target.remoting, (beats[number % 4] for number in count()), lines=2, window=1)


def many_members(target: Target) -> Iterator[None]:
    """Sends heartbeats of ever more clients in ever more groups."""
    return flood(target.remoting, (_beat(number, 50, 50) for number in count()), window=4)


def queue_locks(target: Target) -> Iterator[None]:
    """Locks queues, most of which do not exist, for ever more clients."""

    def make_lock(number: int) -> bytes:
        queues = tuple(QueueOfBroker(f"t{number}", "broker-a", queue) for queue in range(_LOCKED))
        body = LockRequest(f"locking-{number % 100}", f"{CLIENT_ID}-{number}", queues).encode()
        return make_request(RequestCode.LOCK_BATCH_MQ, None, body)

    return flood(target.remoting, (make_lock(number) for number in count()), lines=2, window=2)


def largest_locks(target: Target) -> Iterator[None]:
    """Locks as many queues as a body holds, again and again."""
    queues = tuple(QueueOfBroker(ATTACKED, "broker-a", queue) for queue in range(60_000))
    body = LockRequest("locking", CLIENT_ID, queues).encode()
    frame = make_request(RequestCode.LOCK_BATCH_MQ, None, body)
    return flood(target.remoting, (frame for _ in count()), lines=2, window=1)


def name_servers_values(target: Target) -> Iterator[None]:
    """Stores values in the name server."""
    code = RequestCode.PUT_KV_CONFIG
    values = (make_request(code, {"namespace": f"n{n}", "key": "k", "value": "v" * 1_000}) for n in count())
    return flood(target.remoting, values)


GROWING = (
    Attack("new-topics", "new topics in a loop", "number of topics", new_topics),
    Attack("wide-topics", "new topics with 1,024 queues in a loop", "number of topics", wide_topics),
    Attack("new-groups", "new groups in a loop", "number of groups", new_groups),
    Attack("stray-offsets", "offsets of queues that do not exist", "they are not stored", stray_offsets),
    Attack("many-offsets", "offsets of ever more groups", "number of groups", many_offsets),
    Attack("heartbeats", "heartbeats with 5,000 subscriptions", "topics of a heartbeat", heartbeats),
    Attack("many-members", "heartbeats of ever more clients and groups", "memberships", many_members),
    Attack("queue-locks", "locks of 1,000 queues each", "queue locks, by fair shares", queue_locks),
    Attack("largest-locks", "locks of 60,000 queues in one request", "size and values of a body", largest_locks),
    Attack("kv-values", "values for the name server", "values of the name server", name_servers_values),
)
