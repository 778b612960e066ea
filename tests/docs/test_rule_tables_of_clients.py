"""Tables of docs/rules on clients, allocation, gRPC and Spark, against the code that follows them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from pyspark_rmqpull.planning.splitting import split_partitions
from pyspark_rmqpull.schema import ROW_SCHEMA
from pyspark_rmqpull.sink.schema import ACCEPTED
from rmqpull_broker.core import errors
from rmqpull_broker.core.clients.settings import RETRY_DELAYS_MS
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending import refusals
from rmqpull_client.allocation.strategies import Averagely, AveragelyByCircle, Strategy, hash_text
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.remoting.properties import RESERVED
from tests.docs.test_from_kafka import OF_KAFKA
from tests.docs.test_rule_tables import table
from tests.docs.test_rules import SECTIONS
from tests.harness.allocation_tables import queues, shares

UNITS_S = {"s": 1, "m": 60, "h": 3600}


def quoted(text: str) -> list[str]:
    return re.findall("`([^`]+)`", text)


def test_the_delays_of_retries() -> None:
    [[_, *delays]] = table("1.14", "retry")
    told = [int(text[:-1]) * UNITS_S[text[-1]] * 1000 for text in delays]
    assert told == list(RETRY_DELAYS_MS[2:])
    assert f"`{BrokerProperties().message_delay_level}`" in SECTIONS[1, 14]


@pytest.mark.parametrize(
    ("section", "strategy"), [("2.2", Averagely()), ("2.3", AveragelyByCircle())], ids=["AVG", "AVG_BY_CIRCLE"]
)
def test_the_tables_of_averaging(section: str, strategy: Strategy) -> None:
    for owned, count, *told in table(section, "queues"):
        consumers = "ABCDE"[: int(count)]
        given = queues(4, "ab") if owned.startswith("a0") else queues(int(owned))
        mine = shares(strategy, given, consumers)
        if not owned.startswith("a0"):
            mine = [share.replace("a", "") for share in mine]
        assert [share or "-" for share in mine] == told[: int(count)], (owned, count)


def test_the_hashes_of_texts() -> None:
    told = {quoted(row[0])[0]: int(row[1]) for row in table("2.7", "text")}
    assert told == {text: hash_text(text) for text in told}


def test_the_codes_that_are_answered() -> None:
    cells = [cell for row in table("5.4", "code") for cell in row]
    told = {name: int(code) for code, name in pairwise(cells) if re.fullmatch(r"\d{5}", code)}
    codes = {each.code for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BrokerError)}
    assert told == {name: v2.Code.Value(name) for name in codes | {"OK"}}


def test_the_reserved_names_of_properties() -> None:
    reserved = re.search(r"\*\*Reserved names\*\*(.*?)RocketMQ also uses", SECTIONS[5, 11], re.DOTALL)
    assert reserved is not None
    assert sorted(quoted(reserved[1])) == sorted(RESERVED)


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        (4, refusals.empty_body()),
        (5, refusals.large_body()),
        (6, refusals.many_properties()),
        (7, refusals.reserved_property("<name>")),
        (8, refusals.control_in_property("")),
        (10, refusals.large_properties()),
        (11, refusals.no_id()),
        (12, refusals.long_recovery()),
        (13, refusals.far_delivery()),
    ],
    ids=lambda value: value if isinstance(value, int) else type(value).__name__,
)
def test_what_a_send_is_refused_with(row: int, refusal: BrokerError) -> None:
    [answer] = [answer for number, _, answer in table("5.11", "row") if number == str(row)]
    assert answer.split()[0] == refusal.code
    assert quoted(answer) in ([], [str(refusal)])


def test_the_options_of_kafka_s_source() -> None:
    assert {name for names, *_ in table("8.1", "option") for name in quoted(names)} - {"kafka.*"} == set(
        OF_KAFKA.split()
    )


def test_the_vectors_of_cutting() -> None:
    for given, partitions_min, records_max, told in table("8.2", "ranges"):
        ranges = [tuple(map(int, found)) for found in re.findall(r"\[(\d+), (\d+)\)", given)]
        if not ranges:  # sizes, whose parts the table says in words
            continue
        parts = split_partitions(
            [(QueueRange(MessageQueue("t", "a", topic), begin, end),) for topic, (begin, end) in enumerate(ranges, 1)],
            int(partitions_min) if partitions_min else None,
            int(records_max) if records_max else None,
        )
        cut = [f"{entry.from_offset}-{entry.until_offset}" for part in parts for entry in part]
        expected = re.findall(r"\d+-\d+", told)
        if told.startswith("unchanged"):
            expected = [f"{begin}-{end}" for begin, end in ranges]
        if " and " in told:  # "t1 and t2: ..." gives both the same
            expected = [*expected[:3], *expected]
        assert cut == expected, given


def test_the_columns_of_a_row() -> None:
    body = table("9.3", "column")
    told = [(quoted(row[column])[0], row[column + 1]) for column in (0, 3) for row in body]
    spelled = {"map<string,string>": "MAP of STRING to STRING", "array<string>": "ARRAY of STRING"}
    types = [(field.name, field.dataType.simpleString()) for field in ROW_SCHEMA.fields]
    assert told == [(name, spelled.get(text, text.upper())) for name, text in types]
    sink = re.search(r"The sink takes(.*?)\. It ignores", SECTIONS[9, 3], re.DOTALL)
    assert sink is not None
    assert set(quoted(sink[1])) == set(ACCEPTED)
