"""The checks before a delivery, in their order. ``handlers/remoting/test_popping`` has their texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.filters.message_filter import EVERYTHING, NOTHING
from rmqpull_broker.core.model import GroupConfig, TopicConfig
from rmqpull_broker.core.popping.checks import LATE_MS, Asked, check_pop, check_reader, make_pop_filter
from rmqpull_broker.core.state.draft import Draft
from tests.harness.core import CoreHarness

WRONG = Asked("stopped", "closed", 1, "/127.0.0.1:1", "127.0.0.1", "pop")
"""A request that is refused for as many reasons as possible."""
FIXES = ("late", "broker", "count", "wheel", "topic", "permission", "queue", "group")
CODES = (210, 16, 29, 1, 17, 16, 29, 16, 0)
"""What is wrong, in the order of the checks, and the answer when all before it is right."""


@pytest.mark.parametrize(("fixed", "code"), [(FIXES[:count], code) for count, code in enumerate(CODES)])
def test_the_first_check_that_fails_decides(core: CoreHarness, fixed: tuple[str, ...], code: int) -> None:
    core.state.properties = replace(
        core.state.properties,
        broker_permission=6 if "broker" in fixed else 2,
        timer_wheel_enable="wheel" in fixed,
    )
    if "topic" in fixed:
        perm = 6 if "permission" in fixed else 2
        core.run(lambda draft: put_topic(draft, TopicConfig("closed", 1, 1, perm=perm, creation_id="first")))
    core.run(lambda draft: put_group(draft, GroupConfig("stopped", consume_enable="group" in fixed)))
    asked = WRONG._replace(queue_id=0 if "queue" in fixed else 1)
    late_ms, count = LATE_MS + ("late" not in fixed), 32 if "count" in fixed else 33
    try:
        check_pop(Draft(core.state), asked, late_ms, count)
        answered = 0
    except BrokerError as refusal:
        answered = refusal.response_code
    assert answered == code


def test_a_missing_group_is_created_if_that_is_allowed(core: CoreHarness) -> None:
    core.topic()
    asked = WRONG._replace(group="readers", topic="orders", queue_id=-1)
    core.run(lambda draft: check_reader(draft, asked))
    assert core.state.find_group("readers") == GroupConfig("readers")


@pytest.mark.parametrize(
    ("kind", "expression", "is_right"),
    [
        (None, None, True),
        ("TAG", "", True),
        ("TAG", "||", False),
        ("SQL92", "a = 1", True),
        ("SQL92", "a >", False),
        ("XPATH", "a", False),
    ],
)
def test_filters_are_read_strictly(core: CoreHarness, kind: str | None, expression: str | None, is_right: bool) -> None:
    core.state.properties = replace(core.state.properties, enable_property_filter=False)
    draft = Draft(core.state)
    if is_right:
        make_pop_filter(draft, kind, expression)
        return
    with pytest.raises(BrokerError) as refused:
        make_pop_filter(draft, kind, expression)
    assert refused.value.response_code == 23


def test_a_filter_of_no_type_passes_everything_or_nothing(core: CoreHarness) -> None:
    draft = Draft(core.state)
    assert (make_pop_filter(draft, "", "*"), make_pop_filter(draft, "", "red")) == (EVERYTHING, NOTHING)
