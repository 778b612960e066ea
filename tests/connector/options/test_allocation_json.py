"""The options of allocation as users write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_rmqpull.options.allocation_choice import STRATEGIES
from pyspark_rmqpull.options.allocation_json import (
    parse_machine_room_resolver,
    parse_message_queue_list,
    parse_names,
)
from pyspark_rmqpull.options.declaration import one_of
from rmqpull_client.allocation.machine_room import MachineRoomResolver
from rmqpull_client.model import MessageQueue

strategy = one_of(*STRATEGIES)


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (strategy, "AVG", "AVG"),
        (strategy, " machine_room_nearby ", "MACHINE_ROOM_NEARBY"),
        (parse_names, "c2, c1,c10", ("c1", "c10", "c2")),
        (parse_names, "192.168.0.2@1,192.168.0.10@1", ("192.168.0.10@1", "192.168.0.2@1")),
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
NAMES = "Expected 1 to 10000 names in ASCII without blanks, separated by commas."


@pytest.mark.parametrize(
    ("parse", "text", "refusal"),
    [
        (strategy, "AVERAGE", "Did you mean AVG? Expected AVG, AVG_BY_CIRCLE, CONFIG, "),
        (strategy, "AVG_CIRCLE", "Did you mean AVG_BY_CIRCLE? Expected "),
        (strategy, "consistenthash", "Did you mean CONSISTENT_HASH? Expected "),
        (strategy, "MACHINE_ROOM_NEARBY-AVG", "Did you mean MACHINE_ROOM_NEARBY? Expected "),
        (strategy, "xyz", "Expected AVG, "),
        (strategy, "", "Expected AVG, "),
        (parse_names, "", NAMES),
        (parse_names, "a,,b", NAMES),
        (parse_names, "a b", NAMES),
        (parse_names, "ä", NAMES),
        (parse_names, "a,b,a", "It names a twice."),
        (parse_message_queue_list, "orders", "It is no JSON (Expecting value: line 1 column 1 (char 0)). " + LISTS),
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
            "It names queue orders/a/0 twice, whose messages would be read twice.",
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
