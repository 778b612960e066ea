"""Limits need option trigger where Spark does not apply them."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.source import RmqpullDataSource
from pyspark_rmqpull.spark_releases import triggers
from rmqpull_client.errors import OptionError

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "orders"}


@pytest.fixture
def spark_4_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "SPARK_PASSES_LIMITS", False)
    monkeypatch.setattr(triggers, "SPARK", "PySpark 4.1.4")


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_a_limit_without_trigger_is_refused_with_both_choices(spark_4_1: None, limit: str) -> None:
    sentence = (
        rf"\(options {limit}\) need option trigger on PySpark 4\.1\.4.*from PySpark 4\.2 on\. "
        "Set trigger to processingTime.*Set it to availableNow or once"
    )
    with pytest.raises(OptionError, match=sentence):
        RmqpullDataSource({**NEEDED, limit: "9"}).schema()
    RmqpullDataSource({**NEEDED, limit: "9", "trigger": "once"}).schema()
    RmqpullDataSource(NEEDED).schema()


def test_newer_sparks_accept_limits_with_and_without_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "SPARK_PASSES_LIMITS", True)
    RmqpullDataSource({**NEEDED, "maxOffsetsPerTrigger": "9"}).schema()
    RmqpullDataSource({**NEEDED, "maxOffsetsPerTrigger": "9", "trigger": "availableNow"}).schema()


def test_other_triggers_do_not_exist() -> None:
    with pytest.raises(OptionError, match="trigger is 'continuous'"):
        SourceOptions.from_options({**NEEDED, "trigger": "continuous"})
