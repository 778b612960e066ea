"""A schedule depends on its seed alone, and covers every kind of failure."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from soak.plan import (
    APACHE,
    APACHE_4,
    APACHE_DECK,
    AT_LEAST_ONCE,
    CLUSTER_DECK,
    DECK,
    EXACTLY_ONCE,
    KILLS,
    ONLY_APACHE,
    PRICES,
    PROXY,
    PROXY_DECK,
    REPLICATED_DECK,
    RMQPULL_BROKER,
    SINK,
    SOURCE,
    TAGS,
    Fault,
    Kind,
    Moment,
    Round,
    Setting,
)
from soak.schedule import draw_round, is_on_cluster


def some_rounds(seed: int, count: int = 6, kills: int = 24) -> list[Round]:
    return [draw_round(seed, number, kills) for number in range(count)]


def test_the_same_seed_gives_the_same_rounds() -> None:
    assert some_rounds(7) == some_rounds(7)
    assert some_rounds(7) != some_rounds(8)
    assert [list(round_.lines()) for round_ in some_rounds(7)] == [list(round_.lines()) for round_ in some_rounds(7)]


@pytest.mark.parametrize(
    ("server", "what", "digest"),
    [
        (RMQPULL_BROKER, SOURCE, "3df90d7845f4450d"),
        (RMQPULL_BROKER, SINK, "ef3b5179bdef0392"),
        (APACHE, SOURCE, "fca6354a133454af"),
        (APACHE, SINK, "ca994de9dffe844e"),
        (APACHE_4, SOURCE, "aa5d8332e59d1e29"),
        (APACHE_4, SINK, "534e27d4c2635036"),
    ],
)
def test_a_seed_gives_the_rounds_that_it_gave_to_listed_runs(server: str, what: str, digest: str) -> None:
    """The runs in docs name their seeds only. New kinds of kills and servers have decks of their own."""
    told = "\n".join(line for number in range(6) for line in draw_round(20, number, 24, what, server).lines())
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == digest


def test_a_round_does_not_depend_on_those_before_it() -> None:
    assert draw_round(7, 5, 24) == some_rounds(7)[5]


@pytest.mark.parametrize("decks", [1, 2, 4])
def test_a_round_has_the_kills_that_were_asked_for_and_every_kind(decks: int) -> None:
    for number, deck in ((1, DECK), (0, CLUSTER_DECK)):
        drawn = draw_round(3, number, decks * len(deck))
        assert drawn.setting.on_cluster is (deck is CLUSTER_DECK)
        assert drawn.kills == decks * len(deck)
        counts = Counter(step.kind for step in drawn.steps if step.kind in KILLS)
        assert counts == {kind: decks * deck.count(kind) for kind in deck}


@pytest.mark.parametrize("what", [SOURCE, SINK])
def test_a_third_of_the_rounds_runs_on_a_cluster_with_all_alternatives(what: str) -> None:
    for seed in range(20):
        assert all(sum(is_on_cluster(seed, block + place) for place in range(3)) == 1 for block in (0, 3, 6))
    settings = [draw_round(1, number, 1, what).setting for number in range(60)]
    for on_cluster in (False, True):
        some = [setting for setting in settings if setting.on_cluster is on_cluster]
        assert {setting.has_columns for setting in some} == {True, False}
        assert {setting.available_now for setting in some} == {True, False}
        ways = {(setting.delivery, setting.copy_topics) for setting in settings}
        assert {(setting.delivery, setting.copy_topics) for setting in some} == ways
        assert len(ways) == (1 if what == SOURCE else 4)


def test_executors_and_workers_of_a_cluster_are_killed_only_where_there_is_one() -> None:
    only_there = {Kind.KILL_EXECUTOR, Kind.KILL_CLUSTER_WORKER}
    for drawn in some_rounds(1):
        assert only_there.issubset(step.kind for step in drawn.steps) is drawn.setting.on_cluster
        assert ("on a cluster" in next(drawn.lines())) is drawn.setting.on_cluster


def test_a_few_rounds_cover_everything() -> None:
    rounds = some_rounds(1)
    steps = [step for drawn in rounds for step in drawn.steps]
    settings = [drawn.setting for drawn in rounds]
    assert {step.kind for step in steps} == set(Kind) - set(ONLY_APACHE)
    assert {step.moment for step in steps if step.kind in KILLS} == set(Moment)
    assert {step.fault.action for step in steps if step.fault} == {"FAIL", "DELAY", "HOLD", "DISCONNECT"}
    assert {setting.has_columns for setting in settings} == {True, False}
    assert {setting.by_pattern for setting in settings} == {True, False}
    assert {setting.available_now for setting in settings} == {True, False}
    assert {setting.filter_type for setting in settings} == {"TAG", "SQL92"}


def test_topics_are_added_only_where_the_query_finds_them() -> None:
    for drawn in some_rounds(1):
        if not drawn.setting.by_pattern:
            assert all(step.kind is not Kind.ADD_TOPIC for step in drawn.steps)


@pytest.mark.parametrize("what", [SOURCE, SINK])
def test_rounds_on_apache_take_turns_and_kill_what_is_there(what: str) -> None:
    for number in range(6):
        drawn = draw_round(1, number, 2 * len(APACHE_DECK), what, APACHE)
        has_slave = number % 2 == 1
        kinds = {step.kind for step in drawn.steps}
        assert drawn.setting.has_slave is has_slave
        assert not drawn.setting.on_cluster
        assert kinds & set(KILLS) == set(REPLICATED_DECK if has_slave else APACHE_DECK)
        assert Kind.FAULT not in kinds  # Apache's brokers have no fault rules
        assert drawn.setting.delivery == (AT_LEAST_ONCE if what == SINK else None)
        assert drawn == draw_round(1, number, 2 * len(APACHE_DECK), what, APACHE)


@pytest.mark.parametrize("what", [SOURCE, SINK])
def test_rounds_through_proxies_kill_them_and_name_topics(what: str) -> None:
    numbers: Counter[int] = Counter()
    for number in range(6):
        drawn = draw_round(1, number, 2 * len(PROXY_DECK), what, PROXY)
        counts = Counter(step.kind for step in drawn.steps if step.kind in KILLS)
        assert counts == {kind: 2 * PROXY_DECK.count(kind) for kind in PROXY_DECK}
        assert not drawn.setting.has_slave  # a proxy names one address for each broker
        assert not drawn.setting.by_pattern
        assert not {Kind.FAULT, Kind.ADD_TOPIC} & {step.kind for step in drawn.steps}
        assert drawn.setting.delivery == (AT_LEAST_ONCE if what == SINK else None)
        numbers.update(step.server for step in drawn.steps if step.kind is Kind.KILL_PROXY)
    assert numbers.keys() == {0, 1}


def test_fault_rules_match_calls_of_the_transport() -> None:
    for drawn in some_rounds(2):
        rpcs = {step.fault.rpc for step in drawn.steps if step.fault}
        assert ("PullMessage" in rpcs or "QueryOffset" in rpcs) is not drawn.setting.has_columns


def test_rounds_of_the_sink_cover_every_delivery_and_write_everything() -> None:
    rounds = [draw_round(1, number, 24, SINK) for number in range(6)]
    settings = [drawn.setting for drawn in rounds]
    assert [(setting.delivery, "stages" in setting.extensions, setting.has_columns) for setting in settings[:3]] == [
        (EXACTLY_ONCE, True, True),
        (AT_LEAST_ONCE, True, True),
        (AT_LEAST_ONCE, False, False),
    ]
    assert {(setting.delivery, setting.available_now) for setting in settings} == {
        (delivery, available_now) for delivery in (EXACTLY_ONCE, AT_LEAST_ONCE) for available_now in (False, True)
    }
    assert all(setting.wants(tag, price) for setting in settings for tag in TAGS for price in range(PRICES))
    faulty = {step.fault.rpc for step in rounds[0].steps + rounds[3].steps if step.fault}
    assert {"StageColumns", "CommitStages"} <= faulty
    assert not any(step.fault and "Stage" in step.fault.rpc for step in rounds[1].steps + rounds[2].steps)


@pytest.mark.parametrize(
    ("fault", "may_end"),
    [
        (Fault("PullColumns", "DISCONNECT"), False),
        (Fault("PullColumns", "HOLD"), False),
        (Fault("PullColumns", "FAIL", "TOO_MANY_REQUESTS"), False),
        (Fault("PullColumns", "FAIL", "INTERNAL_SERVER_ERROR"), True),
    ],
)
def test_which_faults_may_end_a_query(fault: Fault, may_end: bool) -> None:
    assert fault.may_end_query is may_end


@pytest.mark.parametrize(
    ("filter_type", "expression", "tag", "price", "wanted"),
    [
        ("TAG", "*", "green", 0, True),
        ("TAG", "red || blue", "blue", 0, True),
        ("TAG", "red || blue", "green", 0, False),
        ("SQL92", "price >= 58", "green", 58, True),
        ("SQL92", "price >= 58", "green", 57, False),
    ],
)
def test_the_filter_accepts_by_tag_or_price(
    filter_type: str, expression: str, tag: str, price: int, wanted: bool
) -> None:
    setting = Setting("admin", ("broker-a",), (("soak-0", 1),), False, filter_type, expression, False, 0, 0, 1)
    assert setting.wants(tag, price) is wanted
