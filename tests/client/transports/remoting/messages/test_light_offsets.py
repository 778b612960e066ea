"""The offsets of messages in light message queues come from their properties, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqpull_client.transports.remoting.messages.light_offsets import set_light_offsets
from rmqpull_client.transports.remoting.messages.stored_messages import RecordTable, locate_records
from tests.harness.stored_records import StoredRecord, join_bodies


def in_queues(queues: str, offsets: str) -> Mapping[str, str]:
    return {"TAGS": "paid", "INNER_MULTI_DISPATCH": queues, "INNER_MULTI_QUEUE_OFFSET": offsets}


def locate(*bodies: Sequence[Mapping[str, str]]) -> RecordTable:
    """Records with these properties. Their offsets in the parent topic are 700, 701 and so on."""
    records = [
        [StoredRecord(properties=properties, queue_offset=700 + at).encode() for at, properties in enumerate(body)]
        for body in bodies
    ]
    return locate_records(*join_bodies(records))


def test_each_body_gets_the_offsets_of_its_own_queue() -> None:
    both = [in_queues("%LMQ%a,%LMQ%b", "5,9"), in_queues("%LMQ%b,%LMQ%a", "10,6"), in_queues("%LMQ%a,%LMQ%ab", "7,0")]
    table = locate(both, [{}, {"TAGS": "paid"}], both[:2])
    found = set_light_offsets(table, ["%LMQ%a", None, "%LMQ%b"])
    assert found.queue_offsets.tolist() == [5, 6, 7, 700, 701, 9, 10]
    assert found.damaged == ()


def test_other_tables_stay_as_they_are() -> None:
    table = locate([in_queues("%LMQ%a", "5")])
    assert set_light_offsets(table, [None]) is table


def test_an_ordinary_queue_among_them_has_no_offset() -> None:
    """A broker writes null for a name that is no light message queue's."""
    found = set_light_offsets(locate([in_queues("orders,%LMQ%a", "null,3")]), ["%LMQ%a"])
    assert found.queue_offsets.tolist() == [3]


def test_a_message_that_does_not_tell_its_offset_ends_its_body() -> None:
    good = in_queues("%LMQ%a", "5")
    for bad in ({}, in_queues("%LMQ%b", "5"), in_queues("%LMQ%a,%LMQ%b", "5"), in_queues("%LMQ%a", "null")):
        found = set_light_offsets(locate([good, bad, good], [good, good]), ["%LMQ%a", "%LMQ%a"])
        assert found.queue_offsets.tolist() == [5, 5, 5]
        assert found.body_indexes.tolist() == [0, 1, 1]
        (damaged,) = found.damaged
        assert (damaged.body_index, damaged.queue_offset) == (0, None)
        assert damaged.reason == "it does not name its offset in %LMQ%a"


def test_a_damaged_record_does_not_tell_the_offset_of_its_parent_topic() -> None:
    records = [StoredRecord(properties=in_queues("%LMQ%a", "5")).encode(), StoredRecord(queue_offset=900).encode()]
    records[1] = records[1][:-2] + b"\x00\x09"  # more properties than there are
    found = set_light_offsets(locate_records(*join_bodies([records])), ["%LMQ%a"])
    assert found.queue_offsets.tolist() == [5]
    assert [each.queue_offset for each in found.damaged] == [None]


def test_no_record_is_no_problem() -> None:
    assert len(set_light_offsets(locate([], []), ["%LMQ%a", None])) == 0
