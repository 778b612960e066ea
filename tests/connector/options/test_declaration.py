"""One declaration makes an option: its name, its typed value, its refusals, and hints to users of other connectors."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from pyspark_rmqpull.options.declaration import Mode, find_given, list_options, option, read_values
from pyspark_rmqpull.options.parsers import integer, parse_boolean
from pyspark_rmqpull.options.sink import OPTIONS as SINK_OPTIONS
from pyspark_rmqpull.options.source import OPTIONS, SourceOptions
from rmqpull_client.errors import OptionError

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}
FROM_KAFKA = {entry.kafka_name: entry.name for entry in OPTIONS if entry.kafka_name is not None}
CONNECTOR = Path(__file__).parents[3] / "connector"


@dataclass(frozen=True, kw_only=True)
class Shared:
    address: str | None = option(str, unit="text", doc="Where it is.", rocketmq_names=("addr", "the.addr"))
    api_key: str | None = option(str, unit="text", doc="The key.", is_secret=True)


@dataclass(frozen=True, kw_only=True)
class Sized:
    max_size_of_it: int = option(integer(1, 9), unit="bytes", doc="The size.", default="3", kafka_name="k.size")


@dataclass(frozen=True, kw_only=True)
class Everything(Shared, Sized):
    is_fast: bool | None = option(parse_boolean, unit="true, false", doc="The speed.", only=Mode.STREAM)


DECLARED = list_options(Everything)


def read(**given: str) -> Everything:
    find_given(DECLARED, given)
    return Everything(**read_values(DECLARED, given))


def test_options_are_listed_group_by_group_under_names_in_camel_case() -> None:
    assert [entry.name for entry in DECLARED] == ["address", "apiKey", "maxSizeOfIt", "isFast"]


def test_values_are_parsed_and_defaults_too() -> None:
    assert read(address="here") == Everything(address="here", api_key=None, max_size_of_it=3, is_fast=None)
    assert read(address="here", MAXSIZEOFIT="9", isfast="true") == Everything(
        address="here", max_size_of_it=9, is_fast=True
    )


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"address": "a", "maxSizeOfIt": "x"}, "Option maxSizeOfIt is 'x'. Expected an integer from 1 to 9."),
        ({"address": "a", "maxsizeofti": "1"}, "Unknown option maxsizeofti. Did you mean maxSizeOfIt?"),
        (
            {"address": "a", "K.Size": "1"},
            "Unknown option K.Size. This option of Spark's Kafka source is called maxSizeOfIt here.",
        ),
        ({"The.Addr": "a"}, "Unknown option The.Addr. This setting of RocketMQ's clients is called address here."),
        ({"zzz": "1"}, "Unknown option zzz. Known options: address, apiKey, maxSizeOfIt, isFast."),
    ],
)
def test_bad_options_are_refused_by_name(given: dict[str, str], refusal: str) -> None:
    with pytest.raises(OptionError) as refused:
        read(**given)
    assert str(refused.value) == refusal


def test_a_secret_is_not_shown() -> None:
    assert "s3cr3t" not in repr(read(address="a", apiKey="s3cr3t"))


def test_given_options_have_their_declared_names_without_those_of_spark() -> None:
    given = find_given(DECLARED, {"ADDRESS": "a", "isfast": "true", "checkpointLocation": "/c"}, Mode.BATCH)
    assert given.names == {"address", "isFast"}
    assert given.mode is Mode.BATCH
    assert "address" in given
    assert "apiKey" not in given


def test_every_option_is_documented_in_sentences_and_has_a_unit() -> None:
    assert [entry.name for entry in (*OPTIONS, *SINK_OPTIONS) if not entry.unit or not entry.doc.endswith(".")] == []


def test_every_option_is_a_field_that_something_reads() -> None:
    code = "\n".join(module.read_text(encoding="utf-8") for module in CONNECTOR.rglob("*.py"))
    read_fields = set(re.findall(r"\.([a-z_]+)\b", code))
    names = {entry.attribute for entry in (*OPTIONS, *SINK_OPTIONS)}
    assert names == {entry.name for entry in fields(SourceOptions)} | {entry.attribute for entry in SINK_OPTIONS}
    assert sorted(names - read_fields) == []


@pytest.mark.parametrize(("theirs", "ours"), [*FROM_KAFKA.items(), ("SUBSCRIBE", "topic")])
def test_an_option_of_kafka_s_source_is_refused_with_its_name_here(theirs: str, ours: str) -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(NEEDED | {theirs: "1"})
    assert str(refused.value) == f"Unknown option {theirs}. This option of Spark's Kafka source is called {ours} here."


@pytest.mark.parametrize("theirs", ["namesrvAddr", "NAMESRVADDR", "nameserver.address", "namesrv.addr"])
def test_a_setting_of_rocketmq_s_clients_is_refused_with_its_name_here(theirs: str) -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(NEEDED | {theirs: "127.0.0.1:9876"})
    named = "This setting of RocketMQ's clients is called nameServers here."
    assert str(refused.value) == f"Unknown option {theirs}. {named}"


def test_no_option_has_the_kafka_name_of_another() -> None:
    assert {entry.name for entry in OPTIONS} & set(FROM_KAFKA) == set()


@pytest.mark.parametrize(
    "name",
    [
        "kafka.auto.offset.reset",
        "kafka.enable.auto.commit",
        "kafka.value.deserializer",
        "enableAutoCommit",
        "pullInterval",
        "consumeThreadMin",
        "persistConsumerOffsetInterval",
        "subscriptionGroup",
    ],
)
def test_what_the_source_decides_itself_is_not_an_option(name: str) -> None:
    """Acceptance case 36: settings of clients, Kafka's and RocketMQ's, that would conflict with the source."""
    with pytest.raises(OptionError, match=f"^Unknown option {re.escape(name)}. "):
        SourceOptions.from_options(NEEDED | {name: "1"})
