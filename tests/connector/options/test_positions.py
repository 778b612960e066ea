"""The options of positions, as one query gets them: their ranks, and what contradicts what."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.positions import AtTime
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}


def refusal(**given: str) -> str:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options({**NEEDED, **given})
    return str(refused.value)


def test_a_new_query_begins_at_the_end_in_a_stream_and_at_the_begin_in_a_batch() -> None:
    options = SourceOptions.from_options(NEEDED)
    begins = [
        options.starting(mode).wanted.of(MessageQueue("flights", "a", 0))[1] for mode in (Mode.STREAM, Mode.BATCH)
    ]
    assert begins == ["latest", "earliest"]


def test_a_time_ranks_above_times_by_queue_and_those_above_offsets() -> None:
    """Acceptance case 49."""
    given = {
        "Timestamp": "5",
        "OffsetsByTimestamp": '{"flights":6}',
        "Offsets": '{"flights":{"a":{"0":7}}}',
    }
    for prefix in ("starting", "ending"):
        found = []
        for count in range(len(given)):
            named = {prefix + name: value for name, value in list(given.items())[count:]}
            options = SourceOptions.from_options(NEEDED | named)
            ranked = options.starting(Mode.BATCH).wanted if prefix == "starting" else options.ending
            found.append(ranked.of(MessageQueue("flights", "a", 0)))
        times = [(f"{prefix}Timestamp", AtTime(5)), (f"{prefix}OffsetsByTimestamp", AtTime(6))]
        assert found == [*times, (f"{prefix}Offsets", 7)]


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"startingOffsets": "latest"}, "Option startingOffsets says latest for every queue"),
        ({"startingOffsetsDefault": "latest"}, "Option startingOffsetsDefault says latest for every queue"),
        ({"startingOffsets": '{"flights":{"a":{"1":"latest"}}}'}, "Option startingOffsets says latest for flights/a/1"),
    ],
)
def test_a_batch_cannot_begin_at_the_end(given: dict[str, str], refused: str) -> None:
    """Acceptance case 52."""
    SourceOptions.from_options(NEEDED | given, Mode.STREAM)
    with pytest.raises(OptionError, match=f"{refused}, where a batch read would find nothing"):
        SourceOptions.from_options(NEEDED | given, Mode.BATCH)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"startingOffsets": "group"}, "Option startingOffsets says group for every queue."),
        ({"startingOffsets": '{"flights":"group"}'}, "Option startingOffsets says group for flights."),
        ({"startingOffsetsDefault": "group"}, "Option startingOffsetsDefault says group for every queue."),
    ],
)
def test_the_start_of_a_group_needs_its_name(given: dict[str, str], named: str) -> None:
    assert refusal(**given) == f"{named} Name the group with option consumerGroup."
    SourceOptions.from_options(NEEDED | given | {"consumerGroup": "g"})


def test_a_start_behind_its_end_is_refused_before_any_work() -> None:
    queue = '{"flights":{"a":{"0":%d}}}'
    assert refusal(startingOffsets=queue % 8, endingOffsets=queue % 7) == (
        "Options startingOffsets and endingOffsets let flights/a/0 begin at 8, behind its end at 7. "
        "A start may be at its end, which reads nothing, but not behind it."
    )
