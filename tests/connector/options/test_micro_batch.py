"""The options of micro-batches and of flow control: how users write them, and what the reader gets."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.micro_batch import INT64_MAX, Limits
from rmqpull_client.errors import OptionError
from rmqpull_client.flow import Flow

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


def test_without_options_the_thresholds_are_the_defaults() -> None:
    assert SourceOptions.from_options(NEEDED).flow == Flow()


def test_each_option_reaches_its_field() -> None:
    given = {
        "pullBatchSize": "1024",
        "pullThresholdForQueue": "65535",
        "pullThresholdSizeForQueue": "1023",
        "pullThresholdSizeForTopic": "8",
        "longPollingTimeoutMs": "5000",
    }
    assert SourceOptions.from_options(NEEDED | given).flow == Flow(1024, 65_535, 1023, 8, 5000)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("pullThresholdForQueue", "0", "from 1 to 65535"),
        ("pullThresholdForQueue", "65536", "from 1 to 65535"),
        ("pullThresholdSizeForQueue", "1025", "from 1 to 1024"),
        ("pullThresholdSizeForTopic", "-1", "from 1 to 102400"),
        ("longPollingTimeoutMs", "99", "from 100 to 60000"),
    ],
)
def test_values_out_of_rocketmqs_ranges_are_refused(name: str, value: str, wanted: str) -> None:
    with pytest.raises(OptionError, match=f"Option {name} is '{value}'. Expected an integer {wanted}"):
        SourceOptions.from_options(NEEDED | {name: value})
