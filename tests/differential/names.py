"""The topics, groups and queues that random requests name."""

from __future__ import annotations

from random import Random

from tests.differential.steps import OWN

TOPICS = ("orders", "trades", "later")
GROUPS = ("readers", "others")
_ODD_NAMES = ("", "unknown", "with blank", "ü", "a" * 130, "a" * 260, "%DLQ%x", "x|y%z")


def choose_topic(random: Random) -> str:
    """Returns the name of a topic: usually of one that exists."""
    kind = random.random()
    if kind < 0.85:
        return OWN + random.choice(TOPICS[:2])
    if kind < 0.92:
        return OWN + TOPICS[2]
    if kind < 0.96:
        return f"%{random.choice(('RETRY', 'DLQ'))}%{OWN}{random.choice(GROUPS)}"
    return choose_odd_name(random)


def choose_group(random: Random) -> str:
    """Returns the name of a consumer group."""
    return OWN + random.choice(GROUPS) if random.random() < 0.95 else choose_odd_name(random)


def choose_odd_name(random: Random) -> str:
    """Returns a name that clients do not send, or that names nothing."""
    name = random.choice(_ODD_NAMES)
    return OWN + name if name else ""


def choose_queue(random: Random) -> str:
    """Returns a queue id: usually of one that exists."""
    return random.choices(("0", "1", "2", "7", "-1"), (60, 30, 4, 3, 3))[0]


def write_flag(value: bool) -> str:
    """Returns a boolean as the wire has it."""
    return str(value).lower()
