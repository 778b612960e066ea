"""The judge finds what was lost, repeated, altered or out of order, and says where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from soak.judge import ahead, judge
from soak.ledger import Attempt, body_of, digest_of
from soak.output import Row

QUEUE = ("orders", "broker-a", 0)
KEYS = ("a-0", "a-1", "a-2", "a-3")


def attempt(offset: int, acknowledged: bool = True) -> Attempt:
    key = KEYS[offset]
    digest = digest_of(body_of(key, 10))
    sent = Attempt(key, "orders", "red", 10 * offset, digest, step=4, acknowledged=acknowledged)
    return replace(sent, offsets=(offset,)) if acknowledged else sent


def row(offset: int, batch_id: int = 0, file: str = "one") -> Row:
    sent = attempt(offset)
    return Row(batch_id, file, "orders", "broker-a", 0, offset, sent.msg_id, sent.key, sent.tag, sent.digest)


ALL = [row(0), row(1), row(2, 1, "two"), row(3, 1, "two")]


def findings(
    rows: list[Row],
    unacknowledged: tuple[int, ...] = (),
    end: int = 4,
    committed: int = 4,
    dearest: int = 100,
) -> list[str]:
    attempts = {KEYS[n]: attempt(n, n not in unacknowledged) for n in range(4)}
    return judge(attempts, lambda _, price: price <= dearest, rows, {QUEUE: end}, {QUEUE: committed})


def test_a_correct_output_has_no_findings() -> None:
    assert findings(ALL) == []
    assert findings(ALL, unacknowledged=(1, 2)) == []  # stored without a response
    assert findings(ALL[:3], unacknowledged=(3,), end=3, committed=3) == []  # not stored
    assert findings(ALL[:2], dearest=10) == []  # the others are filtered


@pytest.mark.parametrize(
    ("rows", "finding"),
    [
        (ALL[:1] + ALL[2:], "acknowledged and not in the output: a-1 at orders/? offset 1, sent in step 4"),
        ([*ALL, row(3, 2, "three")], "in the output more than once: a-3, sent in step 4: orders/broker-a/0 offset 3"),
        ([*ALL, row(3, 2, "three")], "several rows of one offset: orders/broker-a/0 offset 3: 2 rows"),
        ([*ALL[:3], ALL[3]._replace(key="b-9")], "not as it was sent: orders/broker-a/0 offset 3 has the key 'b-9'"),
        ([*ALL[:3], ALL[3]._replace(digest="0")], "not as it was sent: orders/broker-a/0 offset 3 has Row("),
        ([*ALL[:3], ALL[3]._replace(tag="blue")], "not as it was sent: orders/broker-a/0 offset 3 has Row("),
        ([*ALL[:3], ALL[3]._replace(msg_id="x")], "not as it was sent: orders/broker-a/0 offset 3 has Row("),
        ([*ALL[:3], ALL[3]._replace(offset=7)], "not as it was sent: orders/broker-a/0 offset 7 has a-3, which the"),
        ([*ALL[:3], ALL[3]._replace(offset=7)], "passed over: orders/broker-a/0: 1 offsets beyond 4, the first [7]"),
        ([ALL[1], ALL[0], *ALL[2:]], "out of order: orders/broker-a/0 offset 0 in one behind offset 1"),
        (
            [row(3), row(0, 1, "two")],
            "out of order: orders/broker-a/0 offset 0 by batch 1, behind offset 3 of an earlie",
        ),
        (ALL[:1] + ALL[2:], "passed over: orders/broker-a/0: 1 offsets of 4, the first [1]"),
    ],
)
def test_a_difference_is_named(rows: list[Row], finding: str) -> None:
    assert any(found.startswith(finding) for found in findings(rows)), findings(rows)


def test_an_unacknowledged_message_comes_once_at_most() -> None:
    assert findings([*ALL, row(3, 2, "three")], unacknowledged=(3,))


def test_a_message_that_the_filter_does_not_want() -> None:
    assert findings(ALL[:3], dearest=10) == [
        "not as it was sent: orders/broker-a/0 offset 2 has a-2, which the filter does not match"
    ]


def test_parts_of_a_queue_in_a_batch_may_be_in_any_order() -> None:
    assert findings([ALL[0], row(2, 0, "two"), row(3, 0, "two"), row(1, 0, "three")]) == []


def test_a_group_that_is_not_at_the_end() -> None:
    assert findings(ALL, committed=3) == ["group not at the end: orders/broker-a/0: consumer offset 3, end 4"]


def test_a_group_that_is_ahead_of_spark() -> None:
    assert ahead({QUEUE: 3}, {QUEUE: 3}) == []
    told = "group ahead of what Spark has finished: orders/broker-a/0: consumer offset {}, finished {}"
    assert ahead({QUEUE: 3}, {QUEUE: 4}) == [told.format(4, 3)]
    assert ahead({}, {QUEUE: 1}) == [told.format(1, 0)]


def test_only_a_few_of_many_differences_are_described() -> None:
    strangers = [ALL[3]._replace(offset=offset, key=f"b-{offset}") for offset in range(4, 12)]
    told = findings([*ALL, *strangers], end=12, committed=12)
    assert len(told) == 6
    assert told[-1] == "not as it was sent: 3 more"
