"""The flow options, and the limits that a reader gets from them."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.errors import OptionError
from rmqpull_client.flow import Flow

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}


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
