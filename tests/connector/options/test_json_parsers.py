"""Option values in JSON, as users write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_rmqpull.options.json_parsers import (
    find_repeated,
    parse_assign,
    parse_json,
    parse_machine_room_resolver,
    parse_message_queue_list,
)
from rmqpull_client.allocation.machine_room import MachineRoomResolver
from rmqpull_client.model import MessageQueue


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (
            parse_message_queue_list,
            '[{"orders":{"b":[2],"a":[1,0]},"paid":{"a":[0]}},{}]',
            (
                (
                    MessageQueue("orders", "a", 0),
                    MessageQueue("orders", "a", 1),
                    MessageQueue("orders", "b", 2),
                    MessageQueue("paid", "a", 0),
                ),
                (),
            ),
        ),
        (parse_machine_room_resolver, '{"brokerDeployIn":{"a":"r1"}}', MachineRoomResolver({"a": "r1"}, {})),
        (
            parse_machine_room_resolver,
            '{"brokerDeployIn":{"a":"r1"},"consumerDeployIn":{"c":"r2"}}',
            MachineRoomResolver({"a": "r1"}, {"c": "r2"}),
        ),
    ],
)
def test_what_is_read(parse: Callable[[str], Any], text: str, expected: Any) -> None:
    assert parse(text) == expected


LISTS = "Expected a list of queues for each partition, such as "
ROOMS = "Expected the room of each broker, of each consumer, or of both, such as "


@pytest.mark.parametrize(
    ("parse", "text", "refusal"),
    [
        (
            parse_message_queue_list,
            "orders",
            "It is not valid JSON (Expecting value: line 1 column 1 (char 0)).",
        ),
        (parse_message_queue_list, "{}", LISTS),
        (parse_message_queue_list, "[]", LISTS),
        (parse_message_queue_list, "[[]]", LISTS),
        (parse_message_queue_list, '[{"orders":[0]}]', LISTS),
        (parse_message_queue_list, "[{}]", "It names no queue. "),
        (parse_message_queue_list, '[{"orders":{"a":0}}]', "orders/a has 0, not queue ids such as [0,1]. "),
        (parse_message_queue_list, '[{"orders":{"a":[-1]}}]', "orders/a has [-1], not queue ids "),
        (parse_message_queue_list, '[{"orders":{"a":[true]}}]', "orders/a has [true], not queue ids "),
        (parse_message_queue_list, '[{"orders":{"a":[0,0]}}]', "It names queue orders/a/0 twice, "),
        (
            parse_message_queue_list,
            '[{"orders":{"a":[0]}},{"orders":{"a":[0]}}]',
            "It names queue orders/a/0 twice, so its messages would be read twice.",
        ),
        (parse_message_queue_list, '[{"orders":{"a":[0],"a":[1]}}]', "It names 'a' twice. " + LISTS),
        (parse_machine_room_resolver, "[]", ROOMS),
        (parse_machine_room_resolver, "{}", ROOMS),
        (parse_machine_room_resolver, '{"brokers":{"a":"r1"}}', ROOMS),
        (parse_machine_room_resolver, '{"brokerDeployIn":{}}', ROOMS),
        (parse_machine_room_resolver, '{"brokerDeployIn":{"a":""}}', ROOMS),
        (parse_machine_room_resolver, '{"brokerDeployIn":{"a":1}}', ROOMS),
    ],
)
def test_what_is_refused(parse: Callable[[str], Any], text: str, refusal: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(refusal)}"):
        parse(text)


def test_json_is_read_as_it_is() -> None:
    assert parse_json('{"a":{"b":[1,"c"]}}', "Expected anything.") == {"a": {"b": [1, "c"]}}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "It is not valid JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)). "),
        ('{"a":1,"b":2,"a":3}', "It names 'a' twice. "),
        ('{"x":{"a":1,"a":1}}', "It names 'a' twice. "),
        ("[" * 100_000, "It is not valid JSON ("),
        ("9" * 5_000, "It is not valid JSON (Exceeds the limit (4300"),
    ],
)
def test_an_error_says_what_is_wrong_and_then_what_was_expected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}.*Expected a list.$"):
        parse_json(text, "Expected a list.")


def test_repeated_values_are_found_once() -> None:
    assert find_repeated("abacab") == ["a", "b"]


A0, A1, B0 = MessageQueue("a", "x", 0), MessageQueue("a", "x", 1), MessageQueue("b", "x", 0)


def test_assigned_queues_are_named_by_topic_and_broker() -> None:
    assert parse_assign('{"a":{"x":[1,0]},"b":{"x":[0]}}') == {A0, A1, B0}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("orders", "It is not valid JSON"),
        ("[]", r"It is set to \[\]"),
        ("{}", r"It is set to \{\}"),
        ('{"a":[0]}', r"a is set to \[0\]"),
        ('{"a":{"x":[]}}', r"a/x is set to \[\]"),
        ('{"a":{"x":[-1]}}', r"a/x is set to \[-1\]"),
        ('{"a":{"x":[true]}}', r"a/x is set to \[true\]"),
        ('{"a":{"x":["0"]}}', r'a/x is set to \["0"\]'),
        ('{"a":{"x":[0,1,0]}}', "names queue a/x/0 twice"),
        ('{"a":{"x":[0]},"a":{"x":[1]}}', "names 'a' twice"),
    ],
)
def test_bad_assignments_are_shown_with_what_was_expected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"{complaint}.* Expected queue ids by topic and broker name"):
        parse_assign(text)
