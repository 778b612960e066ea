"""What a soak does and when: rounds that depend on the seed alone.

Each round depends on the seed and its number only: round 7 is the same whatever comes before it.
"""

from __future__ import annotations

import random
from dataclasses import replace

from soak.plan import (
    APACHE_DECK,
    AT_LEAST_ONCE,
    CLUSTER_DECK,
    DECK,
    EXACTLY_ONCE,
    KILLS,
    ONLY_APACHE,
    PROXY,
    PROXY_DECK,
    REPLICATED_DECK,
    RMQPULL_BROKER,
    SINK,
    SOURCE,
    Fault,
    Kind,
    Moment,
    Round,
    Setting,
    Step,
)


def draw_round(seed: int, number: int, kills: int, what: str = SOURCE, server: str = RMQPULL_BROKER) -> Round:
    """Returns round ``number`` (from 0) of a seed with this many kills, from one shuffled deck after the other.

    Transports, ways to name topics, and triggers alternate too, so that a few rounds cover all of them.
    """
    dice = random.Random(f"{seed}/{number}")
    setting = _draw_setting(dice, number)
    if what == SINK:
        setting = _with_sink(setting, number, dice)
    if server == RMQPULL_BROKER:
        setting = replace(setting, on_cluster=is_on_cluster(seed, number))
    else:
        setting = _on_apache(setting, number, server, dice)
    whole_deck = deck_of(setting)
    deck: list[Kind] = []
    steps: list[Step] = []
    for _ in range(kills):
        deck = deck or dice.sample(whole_deck, len(whole_deck))
        steps += [_draw_step(dice, kind, setting) for kind in _draw_others(dice, setting)]
        steps.append(_draw_step(dice, deck.pop(), setting))
    return Round(seed, number, setting, tuple(steps))


def deck_of(setting: Setting) -> tuple[Kind, ...]:
    """Returns the kills of a round, each as often as it is drawn."""
    if setting.is_proxied:
        return PROXY_DECK
    if setting.is_apache:
        return REPLICATED_DECK if setting.has_slave else APACHE_DECK
    return CLUSTER_DECK if setting.on_cluster else DECK


def is_on_cluster(seed: int, number: int) -> bool:
    """Whether a round runs on a cluster: one in three does, and the seed decides which, so that each alternative meets
    a cluster.
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


def _on_apache(setting: Setting, number: int, server: str, dice: random.Random) -> Setting:
    """Moves a round to Apache's servers: masters, or in every second round a SYNC_MASTER and its slave.

    Proxies name no slave, and list no topics that match a pattern.
    """
    polls_often = dice.random() < 0.5
    has_slave = number % 2 == 1 and server != PROXY
    return replace(
        setting,
        server=server,
        extensions="",
        by_pattern=setting.by_pattern and server != PROXY,
        has_slave=has_slave,
        brokers=("broker-a",) if has_slave else setting.brokers,
        delivery=None if setting.delivery is None else AT_LEAST_ONCE,
        options=(*setting.options, *[("pollNameServerInterval", "1000")] * polls_often),
    )


def _draw_others(dice: random.Random, setting: Setting) -> list[Kind]:
    kinds = [Kind.STALL_BROKER, *[Kind.FAULT] * (0 if setting.is_apache else 2), Kind.ADD_QUEUES]
    kinds += [Kind.ADD_TOPIC] * setting.by_pattern
    return dice.choices(kinds, k=dice.choice([0, 1, 1, 2]))


def _draw_step(dice: random.Random, kind: Kind, setting: Setting) -> Step:
    wait_s = round(dice.uniform(0.1, 1.5), 1)
    if kind in KILLS:
        moment = dice.choice([Moment.IN_A_BATCH, Moment.IN_A_BATCH, Moment.BETWEEN_BATCHES, Moment.AT_ONCE])
        if kind is Kind.KILL_MASTER_AND_QUERY:
            return Step(kind, wait_s, moment, max_offsets=dice.choice([None, 3_000, 10_000]))
        if kind in ONLY_APACHE or (kind is Kind.KILL_BROKER and setting.is_apache):
            lasts_s = round(dice.uniform(0, 15 if kind is Kind.KILL_MASTER else 3), 1)
            has_several = kind in (Kind.KILL_BROKER, Kind.KILL_NAME_SERVER, Kind.KILL_PROXY)
            return Step(kind, wait_s, moment, lasts_s=lasts_s, server=dice.randrange(2) if has_several else 0)
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
