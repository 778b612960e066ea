"""Sequences of random requests, from a seed. Most are as clients send them, and some have odd or missing fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from random import Random

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import Serialization
from tests.differential import offset_steps, pop_steps, pull_steps, registry_steps, send_steps, topic_steps
from tests.differential.steps import CLIENTS, Step

STEPS = 60
MESSAGES = 6
_SPOILT_OF_ALL = 0.1
_NEVER_SPOILT = {"f", "sysFlag", "topicSysFlag", "subVersion", "bornTime", "pollTime", "invisibleTime"}
"""System flags of messages: see ``send_steps``. Topics have none, as the broker knows no units. A pull
without a version is refused with 1, 23 or not at all, depending on where Java's code first needs it. With odd times
pops wait, or messages are redelivered meanwhile.
"""
_ODD_TEXTS = ("", "x", "-1", "0", "1", "007", "+1", " 1", "1.0", "2147483648", "-9223372036854775808", "9" * 20, "true")
_OF_RANDOM_QUEUES = (RequestCode.POP_MESSAGE, RequestCode.PEEK_MESSAGE)
"""They begin with a random queue, so a part of all messages would be another one on each server."""
_NO_QUEUES = tuple(text for text in _ODD_TEXTS if not text.startswith("-"))
_WITH_PLACES = ("view a message", "send back", "end a transaction")
"""Steps that name physical offsets. Other numbers than the servers' own mean another message to each of them."""

Kinds = Mapping[Callable[[Random], Step], int]
SUBJECTS: Mapping[str, Kinds] = {
    "pulls": {**pull_steps.KINDS, **offset_steps.KINDS},
    "pops": {**pop_steps.KINDS, send_steps.send_plainly: 8},
    "members": {**registry_steps.KINDS, **pull_steps.KINDS},
    "sends": {**send_steps.KINDS, **pull_steps.KINDS, offset_steps.view_message: 4},
    "topics": {**topic_steps.KINDS, **offset_steps.KINDS, send_steps.send: 10},
    "all": {**pull_steps.KINDS, **send_steps.KINDS, **offset_steps.KINDS, **registry_steps.KINDS, **topic_steps.KINDS},
}
"""What makes the steps of a sequence, with how often it does so."""


def make_steps(seed: int, subject: str = "all", count: int = STEPS) -> Sequence[Step]:
    """Returns a sequence. It begins with topics of two queues that have messages."""
    random, kinds = Random(seed), SUBJECTS[subject]
    steps = [send_steps.begin("orders"), send_steps.begin("trades"), *map(send_steps.send_plainly, [random] * MESSAGES)]
    chosen = random.choices([*kinds], [*kinds.values()], k=count)
    return steps + [_vary(random, make(random)) for make in chosen]


def _vary(random: Random, step: Step) -> Step:
    """Chooses the connection and the form of the header, and spoils some of the requests."""
    fields = dict(step.fields)
    if fields and not step.is_held and random.random() < _SPOILT_OF_ALL:
        never = _NEVER_SPOILT | ({"maxMsgNums"} if step.code in _OF_RANDOM_QUEUES else set())
        name = random.choice(sorted(fields.keys() - never or fields))
        is_place = name in ("offset", "commitLogOffset") and step.name in _WITH_PLACES
        if is_place or random.random() < 0.5:
            del fields[name]
        else:
            # A send to any queue goes to a random one. ``send_anywhere`` does that with a topic of one queue.
            texts = _NO_QUEUES if step.name.startswith("send") and name in ("e", "queueId") else _ODD_TEXTS
            fields[name] = random.choice(texts)
    form = Serialization.BINARY if random.random() < 0.2 and step.code < 1 << 15 else Serialization.JSON
    return dataclasses.replace(step, fields=fields, client=random.randrange(CLIENTS), serialization=form)
