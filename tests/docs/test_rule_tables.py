"""Tables of docs/rules against the code that follows them: where a page and the code differ, one of them is wrong."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import pytest

from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.properties import BrokerProperties, list_declared, parse_level_delays
from rmqpull_broker.core.pulling.answers import CLIENT_STATUSES, PULL_ANSWERS, PullStatus
from rmqpull_broker.core.state.names import make_system_topics
from rmqpull_proto.filters.java_values import NotComparable
from rmqpull_proto.filters.sql92 import MalformedExpression
from rmqpull_proto.filters.sql92_grammar import parse
from tests.broker.core.pulling.test_checks import ANSWERS, FAQ
from tests.docs.test_rules import SECTIONS, number_of


def table(section: str, first_column: str) -> list[list[str]]:
    """The rows of the section's table that begins with this column."""
    body = SECTIONS[number_of(section)]
    after = body.partition(f"| {first_column} |")[2].splitlines()[2:]
    lines = after[: next((index for index, line in enumerate(after) if not line.startswith("|")), len(after))]
    assert lines, f"{section} has no table of {first_column}"
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def unquoted(text: str) -> str:
    return text.replace("`", "").replace(",", "")


def a_remark_of(cell: str) -> str:
    """What a remark looks like: text in backquotes, where ``<t>`` stands for anything, and FAQ."""
    [quoted] = re.findall(r"`(.*?)`", cell)
    fixed = re.split(r"<[\w ]+>", quoted + (FAQ if cell.endswith("+ FAQ") else ""))
    return ".+".join(map(re.escape, fixed))


# Slaves, static topics, topics that are forbidden for a group, cold data, offsets of broadcasting groups, and stores
# that cannot be read do not exist here.
ABSENT = {"0", "7", "11", "18", "20", "21"}
CHECKS = [row for row in table("3.1", "row") if row[0] not in ABSENT]


def test_the_checks_of_a_pull_are_in_the_page_s_order() -> None:
    assert [row[0] for row in CHECKS] == list(ANSWERS)


@pytest.mark.parametrize("row", CHECKS, ids=lambda row: row[0])
def test_a_pull_is_refused_as_the_page_says(row: list[str]) -> None:
    number, _, codes, remark, forbidden_type = row
    expected = ANSWERS[number]
    if isinstance(expected, int):
        assert (codes, remark.partition(";")[0]) == ("21", "`OFFSET_RESET`")
        return
    code, text, forbidden = expected
    assert int(codes.partition(";")[0]) == code
    assert re.fullmatch(a_remark_of(remark), text)
    assert forbidden_type == ("" if forbidden is None else str(forbidden))


def test_store_statuses_are_answered_as_the_page_says() -> None:
    told = {
        (name, offset): (code, client)
        for names, offset, code, client in table("3.3", "store status")
        for name in names.split(", ")
    }
    done = {
        (status.name, offset): (f"{response.value} {response.name}", CLIENT_STATUSES[response].pull_status)
        for status, offset, response in PULL_ANSWERS
    }
    assert told == done


def test_the_decision_table_has_every_status_but_that_of_a_reset_and_our_own() -> None:
    statuses = {row[2] for row in table("3.2.1", "row")}
    others = {PullStatus.OFFSET_RESET.name, PullStatus.NOT_REACHED.name}
    assert {name for name in statuses if name.isupper()} == PullStatus.__members__.keys() - others


def test_system_topics_are_those_of_the_page() -> None:
    properties = BrokerProperties()
    names = {"the cluster's name": properties.broker_cluster_name, "the broker's name": "broker-a"}
    told = {}
    for cell, queues, perm, _ in table("3.9.2", "topic"):
        for topic in map(unquoted, cell.split(", ")):
            name = names.get(topic, topic).replace("<cluster>", properties.broker_cluster_name)
            told[name.replace("<broker>", "broker-a")] = int(queues.split()[-1]), int(perm)
    del told["RMQ_SYS_TRACE_TOPIC"]  # traceTopicEnable is no property here
    made = make_system_topics(properties, ["broker-a"])
    assert told == {name: (topic.read_queue_nums, topic.perm) for name, topic in made.items()}


def test_a_new_group_is_as_the_page_says() -> None:
    cells = list(chain.from_iterable(table("3.9.4", "field")))
    told = dict(zip(cells[::2], cells[1::2], strict=True))
    config = {name: value for name, value in vars(GroupConfig("readers")).items() if name != "retry_policy"}
    made = {re.sub("_(.)", lambda it: it[1].upper(), name): value for name, value in config.items() if name != "name"}
    without_effect = {"brokerId": "0", "whichBrokerWhenConsumeSlowly": "1", "consumeTimeoutMinute": "15"}
    assert told == {name: str(value).lower() for name, value in made.items()} | without_effect


def test_broker_properties_have_the_page_s_defaults_or_say_that_they_differ() -> None:
    cells = map(unquoted, chain.from_iterable(table("3.9.5", "property")))
    told = {name: default.partition(" (")[0] for name, default in zip(cells, cells, strict=True) if name}
    assert told.pop("slaveReadEnable") == "false"  # no broker here is a slave
    ours = {prop.name: prop for prop in list_declared()}
    assert ours.keys() - told.keys() == {"retentionBytes"}
    spelled = {"messageDelayLevel": "see 3.14.1", "mappedFileSizeCommitLog": "1 GiB", "fileReservedTime": "72 h"}
    differing = {name for name, default in told.items() if spelled.get(name, _text(ours[name].default)) != default}
    assert differing == {name for name in told if ours[name].deviation}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_delay_levels_are_those_of_the_page() -> None:
    levels = BrokerProperties().message_delay_level
    assert f"`{levels}`" in SECTIONS[3, 14, 1].replace("\n ", "")
    assert len(parse_level_delays(levels)) == 18


PROPERTIES = dict(re.findall(r"(\w+) = `([^`]+)`", SECTIONS[3, 13, 4].partition("|")[0]))
RESULTS = [
    (result, expression)
    for result, expressions in table("3.13.4", "result")
    for expression in re.findall(r"`(.+?)`", expressions)
]


@pytest.mark.parametrize(("result", "expression"), RESULTS)
def test_an_expression_has_the_page_s_result(result: str, expression: str) -> None:
    names = {True: "TRUE", False: "FALSE", None: "unknown"}
    try:
        evaluated = names[parse(expression).evaluate(PROPERTIES)]  # type: ignore[index]
    except NotComparable:
        evaluated = "an error in the evaluation"
    except MalformedExpression:
        evaluated = "an error of the parser"
    assert evaluated == result
