"""The newest offsets of a query are parsed once, and what Spark passes is always what comes out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_rmqpull.planning.known_offsets import KnownOffsets
from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue
from rmqpull_client.witness import Witness

QUEUE = MessageQueue("orders", "a", 0)


def make(offset: int, digest: str = "0c5f1d9ab27e") -> QueueOffsets:
    return QueueOffsets({QUEUE: offset}, witnesses={QUEUE: Witness(offset - 1, 12, digest, "columns")})


def pass_through_spark(form: dict[str, Any]) -> Any:
    return json.loads(json.dumps(form))


def test_the_start_and_the_end_of_a_micro_batch_are_not_parsed_again() -> None:
    known = KnownOffsets()
    start, end = make(10), make(11)
    forms = [pass_through_spark(known.write(offsets)) for offsets in (start, end)]
    assert [known.read(form) for form in forms] == [start, end]
    assert known.read(forms[0]) is start
    assert known.read(forms[1]) is end


def test_what_a_checkpoint_has_is_parsed_once() -> None:
    known, form = KnownOffsets(), make(10).to_json()
    read = known.read(form)
    assert read == make(10)
    assert known.read(pass_through_spark(form)) is read


def test_other_offsets_are_parsed() -> None:
    known = KnownOffsets()
    known.write(make(10))
    other = make(10, digest="ffffffffffff")
    assert known.read(other.to_json()) == other
    assert known.read(QueueOffsets().to_json()) == QueueOffsets()


def test_the_newest_ends_that_older_sparks_get_change_nothing() -> None:
    known, end = KnownOffsets(), make(10)
    form = known.write(end)
    assert known.read({**form, "latestOffset": {"offsets": {}}}) is end


@pytest.mark.parametrize("damaged", [None, "offsets", [], {}, {"latestOffset": {}}, {"version": 2}])
def test_what_is_no_offset_is_refused_each_time(damaged: Any) -> None:
    known = KnownOffsets()
    for _ in range(2):
        with pytest.raises(OptionError):
            known.read(damaged)
