"""docs/kafka-options.md has every option of the source, and names none that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark_rmqpull.options.source import OPTIONS

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "from-kafka.md").read_text(encoding="utf-8")
TEXT = (ROOT / "docs" / "kafka-options.md").read_text(encoding="utf-8")
NAMES = {option.name for option in OPTIONS}
FROM_KAFKA = {option.kafka_name: option.name for option in OPTIONS if option.kafka_name is not None}


OF_KAFKA = """
    kafka.bootstrap.servers subscribe subscribePattern assign startingOffsets startingTimestamp
    startingOffsetsByTimestamp startingOffsetsByTimestampStrategy endingOffsets endingTimestamp endingOffsetsByTimestamp
    failOnDataLoss maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition
    includeHeaders kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs groupIdPrefix
    kafka.group.id kafka.isolation.level
"""
"""The options that Spark documents for reading from Kafka (rules 8.1)."""


def section(title: str) -> str:
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no section {title!r}"
    return found[2]


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of a section's only table, without its head."""
    lines = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| ")]
    return lines[2:]


def words(text: str) -> set[str]:
    return set(re.findall(r"`([A-Za-z]+)`", text))


def test_every_option_of_kafka_s_source_has_its_place() -> None:
    theirs = {name for first, *_ in rows(section("Source options")) for name in re.findall("`([^`]+)`", first)}
    assert sorted(set(OF_KAFKA.split()) - theirs) == []


def test_the_table_and_the_source_have_the_same_names() -> None:
    """An unknown option that Kafka's source has is refused with the name that the table gives it."""
    told = {
        theirs: words(mine)
        for first, mine, *_ in rows(section("Source options"))
        for theirs in re.findall("`([^`]+)`", first)
    }
    assert {theirs: ours for theirs, ours in FROM_KAFKA.items() if told[theirs] != {ours}} == {}


def test_every_option_of_the_source_has_its_place() -> None:
    assert sorted(NAMES - words(section("Options"))) == []


def test_what_is_called_the_same_exists() -> None:
    """In the table of options the second column says ours, or "same" for the name in the first."""
    ours = {
        name
        for theirs, mine, *_ in rows(section("Source options"))
        for name in words(theirs if mine == "same" else mine)
    }
    assert "startingOffsets" in ours
    assert sorted(ours - NAMES - {"systemProperties", "properties"}) == []
