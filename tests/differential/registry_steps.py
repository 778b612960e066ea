"""Random requests of members of groups: heartbeats, lists of members, locks."""

from __future__ import annotations

from random import Random

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.json_dialect import write_json
from tests.differential.names import choose_group, choose_topic
from tests.differential.steps import OWN, Step

_CLIENTS = (f"{OWN}a", f"{OWN}b")
_BROKEN = ("", "{", "[]", "null", '"x"', "{}", '{"clientID":5}', '{"consumerDataSet":null}')


def _to_text(value: object) -> str:
    return write_json(value).decode()


def _make_subscription(random: Random) -> dict[str, object]:
    kind, text = random.choice(
        (
            ("TAG", "*"),
            ("TAG", "red"),
            ("TAG", "red || blue"),
            ("SQL92", "size > 1"),
            ("SQL92", "size >"),
            ("SQL92", ""),
        )
    )
    tags = [one.strip() for one in text.split("||")] if kind == "TAG" and text != "*" else []
    return {
        "classFilterMode": False,
        "codeSet": [_hash(tag) for tag in tags],
        "expressionType": kind,
        "subString": text,
        "subVersion": random.choice((1, 2, 5, 5, 99)),
        "tagsSet": tags,
        "topic": choose_topic(random),
    }


def _hash(text: str) -> int:
    """Returns Java's hash of a text."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _make_member(random: Random) -> dict[str, object]:
    topics = {
        str(one["topic"]): one for one in (_make_subscription(random) for _ in range(random.choice((0, 1, 1, 2))))
    }
    return {
        "consumeFromWhere": random.choice(("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET")),
        "consumeType": random.choice(("CONSUME_PASSIVELY", "CONSUME_PASSIVELY", "CONSUME_ACTIVELY")),
        "groupName": choose_group(random),
        "messageModel": random.choice(("CLUSTERING", "CLUSTERING", "CLUSTERING", "BROADCASTING")),
        "subscriptionDataSet": [*topics.values()],
        "unitMode": False,
    }


def beat(random: Random) -> Step:
    """A heartbeat."""
    # Java keeps the groups of a heartbeat in a set, so two entries for one group would come in any order.
    members = {str(one["groupName"]): one for one in (_make_member(random) for _ in range(random.choice((0, 1, 1, 2))))}
    body: dict[str, object] = {
        "clientID": random.choice(_CLIENTS),
        "consumerDataSet": [*members.values()],
        "producerDataSet": [{"groupName": f"{OWN}producers"}] if random.random() < 0.3 else [],
    }
    if random.random() < 0.2:
        body |= {"heartbeatFingerprint": random.choice((0, 7, 8)), "withoutSub": random.random() < 0.5}
    text = _to_text(body) if random.random() < 0.95 else random.choice(_BROKEN)
    return Step("beat", RequestCode.HEART_BEAT, {}, text)


def unregister(random: Random) -> Step:
    """The end of a member."""
    fields = {"clientID": random.choice(_CLIENTS)}
    fields |= {"consumerGroup": choose_group(random)} if random.random() < 0.8 else {}
    fields |= {"producerGroup": f"{OWN}producers"} if random.random() < 0.3 else {}
    return Step("unregister", RequestCode.UNREGISTER_CLIENT, fields)


def list_members(random: Random) -> Step:
    """The members of a group."""
    return Step("list members", RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": choose_group(random)})


def _make_lock(random: Random) -> str:
    queues = [
        {"brokerName": random.choice(("broker-a", "broker-a", "elsewhere")), "queueId": queue, "topic": f"{OWN}orders"}
        for queue in range(random.choice((0, 1, 2)))
    ]
    value = {
        "clientId": random.choice(_CLIENTS),
        "consumerGroup": choose_group(random),
        "mqSet": queues,
        "onlyThisBroker": False,
    }
    return _to_text(value) if random.random() < 0.95 else random.choice(_BROKEN)


def lock(random: Random) -> Step:
    """Locks of queues."""
    return Step("lock", RequestCode.LOCK_BATCH_MQ, {}, _make_lock(random))


def unlock(random: Random) -> Step:
    """The end of locks."""
    return Step("unlock", RequestCode.UNLOCK_BATCH_MQ, {}, _make_lock(random))


def check_subscription(random: Random) -> Step:
    """The check of a filter expression."""
    body = {
        "clientId": random.choice(_CLIENTS),
        "group": choose_group(random),
        "subscriptionData": _make_subscription(random),
    }
    text = _to_text(body) if random.random() < 0.9 else random.choice(_BROKEN)
    return Step("check a subscription", RequestCode.CHECK_CLIENT_CONFIG, {}, text)


def set_mode(random: Random) -> Step:
    """Whether a group pulls or pops."""
    mode = {
        "topic": choose_topic(random),
        "consumerGroup": choose_group(random),
        "mode": random.choice(("PULL", "POP", "POP")),
        "popShareQueueNum": random.choice((0, 0, 1, 2, -1)),
    }
    text = _to_text(mode) if random.random() < 0.95 else random.choice(("{", "[]", '"x"'))
    return Step("set a mode", RequestCode.SET_MESSAGE_REQUEST_MODE, {}, text)


def query_assignment(random: Random) -> Step:
    """The share of a member."""
    query = {
        "topic": choose_topic(random),
        "consumerGroup": choose_group(random),
        "clientId": random.choice((*_CLIENTS, f"{OWN}stranger")),
        "strategyName": random.choice(("AVG", "AVG", "AVG_BY_CIRCLE", "CONFIG")),
        "messageModel": random.choice(("CLUSTERING", "CLUSTERING", "BROADCASTING")),
    }
    return Step("query an assignment", RequestCode.QUERY_ASSIGNMENT, {}, _to_text(query))


KINDS = {
    set_mode: 3,
    query_assignment: 4,
    beat: 9,
    unregister: 3,
    list_members: 3,
    lock: 3,
    unlock: 2,
    check_subscription: 2,
}
