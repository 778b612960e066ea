"""Names of Spark's Kafka source are answered with ours."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.kafka_names import FROM_KAFKA
from pyspark_rmqpull.options.source import OPTIONS, SourceOptions
from rmqpull_client.errors import OptionError

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}


@pytest.mark.parametrize(("theirs", "ours"), [*FROM_KAFKA.items(), ("SUBSCRIBE", "topic")])
def test_an_option_of_kafka_s_source_is_refused_with_its_name_here(theirs: str, ours: str) -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(NEEDED | {theirs: "1"})
    assert str(refused.value) == f"Unknown option {theirs}. What Spark's Kafka source calls so is {ours} here."


def test_names_here_exist_and_those_of_kafka_do_not() -> None:
    names = {option.name for option in OPTIONS}
    assert names >= set(FROM_KAFKA.values())
    assert names & set(FROM_KAFKA) == set()
