"""The options that say how much a micro-batch takes: how users write them, and which contradict each other."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.micro_batch import INT64_MAX, Limits
from rmqpull_client.errors import OptionError

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}
INTEGER = f"Expected an integer from 1 to {INT64_MAX}."
DELAY = "Expected a duration from 1 ms to 31536000000 ms, such as 15m, 5s or 500ms."
SIZE = f"Expected a size from 1 to {INT64_MAX} bytes, such as 64m, 512k or 1000000."


def refusal(**given: str) -> str:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(NEEDED | given)
    return str(refused.value)


def test_limits_are_read() -> None:
    options = SourceOptions.from_options(
        NEEDED
        | {
            "maxOffsetsPerTrigger": "100",
            "minOffsetsPerTrigger": "50",
            "maxTriggerDelay": "5s",
            "maxBytesPerTrigger": "64m",
        }
    )
    assert options.limits == Limits(
        max_offsets_per_trigger=100,
        min_offsets_per_trigger=50,
        max_trigger_delay_ms=5_000,
        max_bytes_per_trigger=64 << 20,
    )


def test_no_limits_are_none() -> None:
    options = SourceOptions.from_options(NEEDED)
    assert options.limits == Limits(max_trigger_delay_ms=900_000)
    assert (options.limits.is_limited, options.has_byte_limits) == (False, False)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("minOffsetsPerTrigger", "0", INTEGER),
        *[("maxTriggerDelay", bad, DELAY) for bad in ("0", "0s", "999us", "-5s", "1.5m", "5w", "m", "", "366d")],
        *[("maxBytesPerTrigger", bad, SIZE) for bad in ("0", "-1", "1.5g", "64 m", "64mib", "g", "")],
        ("maxBytesPerTrigger", "9223372036854775808", SIZE),
        ("maxBytesPerTrigger", "8388608t", SIZE),
        ("maxBytesPerPartition", "0", SIZE),
    ],
)
def test_a_bad_limit_is_refused_by_naming_it(name: str, value: str, expected: str) -> None:
    assert refusal(**{"minOffsetsPerTrigger": "1", name: value}) == f"Option {name} is {value!r}. {expected}"


@pytest.mark.parametrize(
    ("delay", "in_ms"),
    [
        ("15m", 900_000),
        ("15min", 900_000),
        ("5s", 5_000),
        (" 5S ", 5_000),
        ("250ms", 250),
        ("250", 250),
        ("1", 1),
        ("2500us", 2),
        ("2h", 7_200_000),
        ("365d", 31_536_000_000),
    ],
)
def test_a_delay_is_spelled_as_spark_does(delay: str, in_ms: int) -> None:
    given = NEEDED | {"minOffsetsPerTrigger": "9", "maxTriggerDelay": delay}
    assert SourceOptions.from_options(given).limits.max_trigger_delay_ms == in_ms


@pytest.mark.parametrize(
    ("size", "in_bytes"),
    [("1", 1), ("7b", 7), ("512k", 512 << 10), ("2KB", 2 << 10), ("64m", 64 << 20), ("1gb", 1 << 30), ("3t", 3 << 40)],
)
def test_a_size_is_spelled_as_spark_does(size: str, in_bytes: int) -> None:
    options = SourceOptions.from_options(NEEDED | {"maxBytesPerTrigger": size, "maxBytesPerPartition": size})
    assert (options.limits.max_bytes_per_trigger, options.max_bytes_per_partition) == (in_bytes, in_bytes)


def test_a_minimum_above_the_maximum_is_refused() -> None:
    """Acceptance case 35."""
    assert refusal(minOffsetsPerTrigger="20", maxOffsetsPerTrigger="15") == (
        "Option minOffsetsPerTrigger is 20, which is more than maxOffsetsPerTrigger, 15. "
        "Lower the first or raise the second."
    )
    SourceOptions.from_options(NEEDED | {"minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "15"})


def test_a_delay_needs_a_minimum() -> None:
    assert refusal(maxtriggerdelay="5s") == (
        "Option maxTriggerDelay limits the delay by minOffsetsPerTrigger, which is missing. "
        "Set minOffsetsPerTrigger, or remove maxTriggerDelay."
    )
