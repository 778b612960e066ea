"""What a soak does and when: rounds of steps that depend on the seed alone.

A round has a broker, topics and a query of its own. Each round depends on the seed and its number only: round 7 is the
same whatever comes before it.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

TAGS = ("red", "green", "blue")
PRICES = 100
"""The property price of a message is smaller than this."""
SOURCE, SINK = "source", "sink"
"""What is tested: a query from topics into files, or one from topics into other topics."""
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"


class Kind(enum.Enum):
    """The kinds of steps."""

    KILL_BROKER = "broker killed"
    KILL_QUERY = "query killed (driver, JVM, Python)"
    KILL_WORKER = "Python worker killed"
    KILL_SOURCE = "driver's Python process of the source killed"
    KILL_EXECUTOR = "executor killed"
    KILL_CLUSTER_WORKER = "worker of the cluster killed, with its executor"
    STALL_BROKER = "broker stopped for a while (SIGSTOP)"
    FAULT = "calls made to fail, wait or break"
    ADD_QUEUES = "queues added"
    ADD_TOPIC = "topic added"


_EVERYWHERE = (Kind.KILL_QUERY, Kind.KILL_BROKER, Kind.KILL_WORKER, Kind.KILL_SOURCE)
KILLS = (*_EVERYWHERE, Kind.KILL_EXECUTOR, Kind.KILL_CLUSTER_WORKER)
DECK = (*_EVERYWHERE, Kind.KILL_BROKER, Kind.KILL_WORKER)
"""Kills are drawn from shuffled decks. A query takes the longest to restart, so it is killed the least."""
CLUSTER_DECK = (*KILLS, Kind.KILL_EXECUTOR)
"""The deck of rounds on a cluster."""


class Moment(enum.Enum):
    """The moment of a kill, as seen from the query."""

    AT_ONCE = "at once"
    IN_A_BATCH = "in a batch"
    BETWEEN_BATCHES = "between batches"


@dataclass(frozen=True)
class Fault:
    """A fault rule for the broker, as in its admin service. HOLD ends with the step."""

    rpc: str
    action: str
    code: str = "CODE_UNSPECIFIED"
    delay_ms: int = 0
    times: int = 1
    after: bool = False

    @property
    def may_end_query(self) -> bool:
        """Whether the connector must not retry after it."""
        return self.action == "FAIL" and self.code != "TOO_MANY_REQUESTS"


@dataclass(frozen=True)
class Step:
    """A step, which happens ``wait_s`` after the previous one.

    ``lasts_s`` is how long a broker is away or stopped, or calls are held. ``max_offsets`` is the limit of the query
    after its restart. ``topic`` is an index of a topic, modulo their number.
    """

    kind: Kind
    wait_s: float
    moment: Moment = Moment.AT_ONCE
    lasts_s: float = 0.0
    max_offsets: int | None = None
    fault: Fault | None = None
    topic: int = 0
    queues: int = 0

    def __str__(self) -> str:
        words = [f"+{self.wait_s:.1f} s", self.kind.value]
        if self.kind in KILLS:
            words.append(self.moment.value)
        if self.lasts_s:
            words.append(f"for {self.lasts_s:.1f} s")
        if self.fault is not None:
            fault = self.fault
            words.append(f"{fault.times} x {fault.rpc} {fault.action} {fault.code if fault.action == 'FAIL' else ''}")
            words += [f"{fault.delay_ms} ms"] * bool(fault.delay_ms) + ["after it was done"] * fault.after
        if self.queues:
            words.append(f"{self.queues} of topic {self.topic}")
        return " ".join(words)


@dataclass(frozen=True)
class Setting:
    """What differs from round to round."""

    extensions: str
    brokers: tuple[str, ...]
    topics: tuple[tuple[str, int], ...]
    by_pattern: bool
    filter_type: str
    filter_expression: str
    available_now: bool
    trigger_ms: int
    large_body_bytes: int
    max_offsets: int
    options: tuple[tuple[str, str], ...] = ()
    delivery: str | None = None
    """The delivery of the sink; None if Spark's own sink writes files."""
    copy_topics: int = 1
    """The number of topics that the sink writes to. A message group is always in the same one."""
    on_cluster: bool = False
    """Whether the query runs on a standalone cluster of two workers with speculation, or in one JVM."""

    @property
    def has_columns(self) -> bool:
        """Whether the broker serves batches in columns, or only the standard protocol."""
        return "columns" in self.extensions

    def wants(self, tag: str, price: int) -> bool:
        """Whether the filter accepts a message, by a reading of its own."""
        if self.filter_type == "SQL92":
            return price >= int(self.filter_expression.split()[-1])
        return self.filter_expression == "*" or tag in self.filter_expression.split(" || ")

    def __str__(self) -> str:
        trigger = "AvailableNow again and again" if self.available_now else f"every {self.trigger_ms} ms"
        topics = ", ".join(f"{name}:{queues}" for name, queues in self.topics)
        options = " ".join(f"{name}={value}" for name, value in self.options)
        return (
            f"extensions {self.extensions}; brokers {','.join(self.brokers)}; "
            f"{'pattern over' if self.by_pattern else 'topics'} {topics}; "
            f"filter {self.filter_type} {self.filter_expression!r}; {trigger}; bodies up to {self.large_body_bytes}; "
            f"at first {self.max_offsets} offsets per trigger; "
            f"{options}"
            + (
                f"; written {self.delivery} to {self.copy_topics} topic" + "s" * (self.copy_topics > 1)
                if self.delivery
                else ""
            )
            + ("; on a cluster of two workers, with speculation" if self.on_cluster else "")
        )


@dataclass(frozen=True)
class Round:
    """A broker, a query, and what happens to them."""

    seed: int
    number: int
    setting: Setting
    steps: tuple[Step, ...] = field(default=())

    @property
    def kills(self) -> int:
        """The number of kills."""
        return sum(step.kind in KILLS for step in self.steps)

    def lines(self) -> Iterator[str]:
        """Yields the lines of the printed schedule."""
        yield f"seed {self.seed} round {self.number}: {self.setting}"
        yield from (f"  step {number}: {step}" for number, step in enumerate(self.steps, 1))


def draw_round(seed: int, number: int, kills: int, what: str = SOURCE) -> Round:
    """Returns round ``number`` (from 0) of a seed with this many kills, from one shuffled deck after the other.

    Transports, ways to name topics, and triggers alternate too, so that a few rounds cover all of them.
    """
    dice = random.Random(f"{seed}/{number}")
    setting = _draw_setting(dice, number)
    if what == SINK:
        setting = _with_sink(setting, number, dice)
    setting = replace(setting, on_cluster=is_on_cluster(seed, number))
    whole_deck = CLUSTER_DECK if setting.on_cluster else DECK
    deck: list[Kind] = []
    steps: list[Step] = []
    for _ in range(kills):
        deck = deck or dice.sample(whole_deck, len(whole_deck))
        steps += [_draw_step(dice, kind, setting) for kind in _draw_others(dice, setting)]
        steps.append(_draw_step(dice, deck.pop(), setting))
    return Round(seed, number, setting, tuple(steps))


def is_on_cluster(seed: int, number: int) -> bool:
    """Whether a round runs on a cluster: one of each three does, which one depends on the seed. So each alternative
    meets a cluster.
    """
    return random.Random(f"{seed}/{number // 3}/cluster").randrange(3) == number % 3


def _draw_setting(dice: random.Random, number: int) -> Setting:
    filter_type, expression = dice.choice(
        [("TAG", "*"), ("TAG", "*"), ("TAG", "red || blue"), ("SQL92", f"price >= {dice.randrange(10, 90)}")]
    )
    options = {
        "minPartitions": dice.choice([None, 2, 5]),
        "maxRecordsPerPartition": dice.choice([None, 1_000]),
        "numPartitions": dice.choice([None, 2, 5]),
        "allocateStrategy": dice.choice([None, "AVG_BY_CIRCLE", "BACKLOG"]),
        "idleWaitMs": dice.choice([None, 0, 500]),
    }
    return Setting(
        extensions="columns,admin" if number % 2 == 0 else "admin",
        brokers=("broker-a",) if dice.random() < 0.6 else ("broker-a", "broker-b"),
        topics=tuple((f"soak-{index}", dice.randrange(1, 5)) for index in range(dice.randrange(1, 4))),
        by_pattern=number // 2 % 2 == 0,
        filter_type=filter_type,
        filter_expression=expression,
        available_now=number % 3 == 2,
        trigger_ms=dice.choice([0, 300, 1_000]),
        large_body_bytes=dice.choice([1_000, 50_000, 600_000]),
        max_offsets=dice.choice([1_000, 3_000]),
        options=tuple((name, str(value)) for name, value in options.items() if value is not None),
    )


def _with_sink(setting: Setting, number: int, dice: random.Random) -> Setting:
    """Adds a sink to the setting. Its three deliveries alternate. The query writes all messages, and each queue with
    one task, so that the judge can check their order.
    """
    extensions, delivery = [
        ("columns,admin,stages", EXACTLY_ONCE),
        ("columns,admin,stages", AT_LEAST_ONCE),
        ("admin", AT_LEAST_ONCE),
    ][number % 3]
    options = tuple(option for option in setting.options if option[0] in ("numPartitions", "idleWaitMs"))
    # AvailableNow in other rounds than for the source, or it would meet only one of the deliveries.
    available_now = number // 3 % 2 == 1
    everything = replace(setting, filter_type="TAG", filter_expression="*", available_now=available_now)
    copy_topics = dice.choice([1, 6])
    return replace(everything, extensions=extensions, delivery=delivery, options=options, copy_topics=copy_topics)


def _draw_others(dice: random.Random, setting: Setting) -> list[Kind]:
    kinds = [Kind.STALL_BROKER, Kind.FAULT, Kind.FAULT, Kind.ADD_QUEUES]
    kinds += [Kind.ADD_TOPIC] * setting.by_pattern
    return dice.choices(kinds, k=dice.choice([0, 1, 1, 2]))


def _draw_step(dice: random.Random, kind: Kind, setting: Setting) -> Step:
    wait_s = round(dice.uniform(0.1, 1.5), 1)
    if kind in KILLS:
        moment = dice.choice([Moment.IN_A_BATCH, Moment.IN_A_BATCH, Moment.BETWEEN_BATCHES, Moment.AT_ONCE])
        if kind in (Kind.KILL_BROKER, Kind.KILL_CLUSTER_WORKER):
            return Step(kind, wait_s, moment, lasts_s=round(dice.uniform(0, 3), 1))
        if kind is Kind.KILL_QUERY:
            return Step(kind, wait_s, moment, max_offsets=dice.choice([None, 3_000, 10_000]))
        return Step(kind, wait_s, moment)
    if kind is Kind.FAULT:
        fault = _draw_fault(dice, setting)
        return Step(kind, wait_s, lasts_s=round(dice.uniform(0.5, 2), 1) if fault.action == "HOLD" else 0, fault=fault)
    if kind is Kind.STALL_BROKER:
        return Step(kind, wait_s, lasts_s=round(dice.uniform(0.5, 4), 1))
    return Step(kind, wait_s, topic=dice.randrange(10), queues=dice.randrange(1, 4))


def _draw_fault(dice: random.Random, setting: Setting) -> Fault:
    calls: tuple[str, ...] = _COLUMN_CALLS if setting.has_columns else _STANDARD_CALLS
    calls = calls + _SINK_CALLS if setting.delivery == EXACTLY_ONCE else calls
    # Twice as often a call of the query as one of a producer.
    rpc = dice.choice([*calls, *calls, "SendMessage", *["PublishColumns"] * setting.has_columns])
    times, after = dice.randrange(1, 4), dice.random() < 0.4
    action = dice.choice(["FAIL", "DELAY", "HOLD", "DISCONNECT"])
    if action == "FAIL":
        return Fault(rpc, action, dice.choice(_CODES), times=times, after=after)
    if action == "DELAY":
        return Fault(rpc, action, delay_ms=dice.randrange(100, 2_000), times=times, after=after)
    return Fault(rpc, action, times=times, after=after)


_COLUMN_CALLS = ("PullColumns", "QueryBounds", "CommitOffsets")
_STANDARD_CALLS = ("PullMessage", "QueryOffset", "QueryRoute", "UpdateOffset")
_SINK_CALLS = ("StageColumns", "StageColumns", "CommitStages", "CommitStages", "KeepStages")
_CODES = ("TOO_MANY_REQUESTS", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR")
