"""A write that cannot succeed ends with an error that names the reason. Exactly-once makes nothing of it readable."""

from __future__ import annotations

import datetime
import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_rmqpull.sink.invalid_rows import REASON, TOPIC
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import Topics
from tests.harness.server_kinds import (
    APACHE,
    OF_APACHE,
    PROXY,
    REMOTING,
    REQUESTS,
    STAGES,
    STANDARD,
    make_params,
    needs,
)
from tests.harness.spark_sink import ServeSink, SinkHarness

NOBODY = "127.0.0.1:1"  # a port that no broker gets
ONCE_OVER_EACH_PROTOCOL = pytest.mark.parametrize("kind", make_params([STAGES, APACHE, PROXY]))
MAP = "MAP<STRING,STRING>"
TOPICS: Topics = {
    "orders": 1,
    "others": 1,
    "groups": (1, TopicType.FIFO),
    "late": (1, TopicType.DELAY),
    "halves": (1, TopicType.TRANSACTION),
}


def refusal(sink: SinkHarness, schema: str, *rows: object, mode: str = "append", **options: str) -> str:
    """The error of a write that fails."""
    given = {**sink.server.options, **options}
    written = sink.rows(schema, *[row if isinstance(row, tuple) else (row,) for row in rows])
    with pytest.raises(PySparkException) as refused:
        written.write.format("rmqpull").options(**given).mode(mode).save()
    return str(refused.value)


@ONCE_OVER_EACH_PROTOCOL
@pytest.mark.parametrize(
    ("schema", "given", "sentence"),
    [
        ("body STRING", {}, "OptionError: The rows have no topic. Set option topic, or add a column topic."),
        ("topic STRING", {}, "OptionError: Column body is missing. The sink takes body BINARY or STRING, topic"),
        ("body STRING, topic INT", {}, "OptionError: Column topic is INT; it must be STRING."),
        ("body STRING, value STRING", {}, "OptionError: The sink does not know column value."),
        ("body STRING", {"topic": "order"}, "OptionError: Cannot write to topic order: "),
        ("body STRING", {"topic": "order"}, "The sink creates no topics. Create it first: "),
        ("body STRING", {"topic": "orders", "keySerializer": "x"}, "OptionError: Unknown option keyserializer."),
        ("body STRING", {"topic": "orders", "consumerGroup": "g"}, "OptionError: Option consumerGroup is for reads"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_write_is_refused_when_it_is_planned(
    serve: ServeSink, schema: str, given: dict[str, str], sentence: str
) -> None:
    """Acceptance cases 65, 66, 67 and 68."""
    sink = serve(TOPICS)
    assert sentence in refusal(sink, schema, **given)


@ONCE_OVER_EACH_PROTOCOL
@needs("message types", "message types in plans")
@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("halves", "OptionError: Topic halves takes only transactional messages"),
        ("groups", "takes only FIFO messages, which need a column messageGroup."),
        ("late", "takes only DELAY messages, which need a column deliveryTimestamp."),
    ],
)
def test_rows_that_no_message_of_the_topic_can_be_are_refused_when_it_is_planned(
    serve: ServeSink, topic: str, sentence: str
) -> None:
    assert sentence in refusal(serve(TOPICS), "body STRING", topic=topic)


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        ("endpoints", f"BrokerUnavailable: No broker responded to DescribeServer at {NOBODY} within 100 ms"),
        ("nameServers", "BrokerUnavailable: "),
    ],
)
def test_absent_servers_end_the_write(spark: SparkSession, servers: str, sentence: str) -> None:
    """Runs once: there is no server."""
    given = {servers: NOBODY, "requestTimeoutMs": "100", "topic": "orders"}
    rows = spark.createDataFrame([("x",)], "body STRING")
    with pytest.raises(PySparkException, match=sentence) as refused:
        rows.write.format("rmqpull").options(**given).mode("append").save()
    assert NOBODY in str(refused.value)


@ONCE_OVER_EACH_PROTOCOL
def test_a_view_with_options_for_reading_takes_no_inserts(serve: ServeSink) -> None:
    sink = serve({"orders": 1})
    sink.server.send("orders", b"1")
    given = {**sink.server.options, "topic": "orders", "startingTimestamp": "2020-01-01"}
    options = ", ".join(f"{name} '{value}'" for name, value in given.items())
    sink.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW since_2020 USING rmqpull OPTIONS ({options})")
    sentence = (
        "Option startingTimestamp is for reads, and this is a write. Remove it. If it comes from a SQL view, create"
    )
    with pytest.raises(PySparkException, match=sentence):
        sink.spark.sql("INSERT INTO since_2020 SELECT * FROM since_2020")
    assert sink.spark.sql("SELECT * FROM since_2020").count() == len(sink.bodies("orders")) == 1


@ONCE_OVER_EACH_PROTOCOL
@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("overwrite", 'OptionError: A topic cannot be overwritten. Use .mode("append"), which adds messages.'),
        ("errorifexists", "[UNSUPPORTED_DATA_SOURCE_SAVE_MODE]"),
        ("ignore", "[UNSUPPORTED_DATA_SOURCE_SAVE_MODE]"),
    ],
)
def test_save_modes_other_than_append_are_refused(serve: ServeSink, mode: str, sentence: str) -> None:
    """Acceptance case 75."""
    assert sentence in refusal(serve(), "body STRING", "x", mode=mode, topic="orders")


@pytest.mark.parametrize("kind", [STANDARD])
@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"delivery": "exactly-once"}, "Use rmqpull-broker, or set delivery to at-least-once."),
        ({"queueSelector": "hash"}, "Leave it at roundRobin"),
    ],
)
def test_options_that_the_server_does_not_support_are_refused_with_advice(
    serve: ServeSink, given: dict[str, str], advice: str
) -> None:
    assert advice in refusal(serve(), "body STRING", "x", topic="orders", **given)


FAR = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=4)


@pytest.mark.parametrize(
    ("schema", "row", "sentence"),
    [
        ("topic STRING, body STRING", (None, "x"), "Invalid row for topic null with a body of 1 bytes: "),
        ("topic STRING, body STRING", ("orders", None), "Invalid row for topic orders: its body is null"),
        ("topic STRING, body STRING", ("order", "x"), "OptionError: Cannot write to topic order: "),
        ("topic STRING, body STRING", ("orders", "12345"), "its body has more than maxMessageSize=4 bytes"),
        (
            "topic STRING, body STRING, tags STRING",
            ("orders", "x", "a|b"),
            "Invalid row for topic orders with tags 'a|b'",
        ),
        (
            f"topic STRING, body STRING, properties {MAP}",
            ("orders", "x", {"TAGS": "a"}),
            "Invalid row for topic orders",
        ),
        pytest.param(
            "topic STRING, body STRING, messageGroup STRING",
            ("groups", "x", None),
            "Invalid row for topic groups",
            marks=needs("message types"),
        ),
        pytest.param(
            "topic STRING, body STRING, messageGroup STRING",
            ("orders", "x", "g"),
            "with messageGroup 'g'",
            marks=needs("message types"),
        ),
        (
            "topic STRING, body STRING, deliveryTimestamp TIMESTAMP",
            ("late", "x", FAR),
            "Invalid row for topic late with a",
        ),
    ],
    ids=["null topic", "null body", "topic", "size", "tag", "property", "no group", "group", "time"],
)
def test_an_invalid_row_ends_the_write_and_is_described(
    serve: ServeSink, kind: str, schema: str, row: tuple[object, ...], sentence: str
) -> None:
    """Acceptance cases 67 and 73."""
    sink = serve(TOPICS)
    good = ("others", "good", *[None] * (len(row) - 2))
    assert sentence in refusal(sink, schema, good, row, maxMessageSize="4")
    if kind == STAGES:
        assert sink.bodies("others") == []


@pytest.mark.parametrize("wanted", ["skip", "deadLetter"])
def test_invalid_rows_are_skipped_or_become_dead_letters(serve: ServeSink, wanted: str) -> None:
    sink = serve({"orders": 1, "dead": 1})
    rows = sink.rows("body STRING, tags STRING", ("1", None), (None, "t"), ("2", "a|b"), ("3", None))
    options = {"deadLetterTopic": "dead"} if wanted == "deadLetter" else {}
    sink.write(rows, topic="orders", onInvalidRow=wanted, **options)
    assert sink.bodies("orders") == [b"1", b"3"]
    letters = {row.message.body: row.message.properties for row in sink.messages("dead")}
    if wanted == "skip":
        assert letters == {}
    else:
        assert set(letters) == {b"(no body)", b"2"}
        assert letters[b"(no body)"][REASON] == "its body is null"
        assert {letter[TOPIC] for letter in letters.values()} == {"orders"}


CONTROL = "a\x01b"


def test_a_copy_of_any_message_is_written_if_properties_may_be_dropped(serve: ServeSink, kind: str) -> None:
    """Brokers keep character 1 in a value; over gRPC it is refused."""
    sink = serve({"orders": 1})
    schema = "body STRING, properties MAP<STRING,STRING>"
    rows = (
        ("1", {"colour": "red", "INNER_MULTI_DISPATCH": "x"}),
        ("2", {"note": CONTROL, "two": "a\x02b", "colour": "blue"}),
    )
    assert "Invalid row for topic orders" in refusal(sink, schema, *rows, topic="orders")
    sink.write(sink.rows(schema, *rows), topic="orders", invalidProperties="drop")
    found = {row.message.body: dict(row.message.properties) for row in sink.messages("orders")}
    written = {body: {name: own[name] for name in own if not name.startswith("rmqpull")} for body, own in found.items()}
    note = {"note": CONTROL} if kind in (REMOTING, *OF_APACHE) else {}
    assert written == {b"1": {"colour": "red"}, b"2": {"colour": "blue", **note}}


def test_the_error_names_a_topic_without_write_permission(serve: ServeSink) -> None:
    sink = serve({"others": 1})
    sink.server.create_topic_without_writes("orders")
    for text in (
        refusal(sink, "body STRING", "x", topic="orders"),
        refusal(sink, "topic STRING, body STRING", ("others", "1"), ("orders", "2")),
    ):
        assert "OptionError: Cannot write to topic orders: " in text
        assert "Give it write permission: " in text


SENDS = REQUESTS["send"]


@needs("faults")
def test_a_full_disk_ends_the_write_with_the_topic_in_the_error(serve: ServeSink, kind: str) -> None:
    sink = serve()
    sink.server.broker.faults.fail(SENDS[kind], "INTERNAL_SERVER_ERROR", "the broker's disk is full", times=None)
    text = refusal(sink, "body STRING", "x", topic="orders")
    assert re.search(r"BrokerFailed: Cannot write rows to topic orders: .* the broker.s disk is full", text)


@needs("faults")
def test_a_broker_that_stays_away_ends_the_write_with_the_topic_in_the_error(serve: ServeSink, kind: str) -> None:
    sink = serve()
    sink.server.broker.faults.disconnect(SENDS[kind], times=None)
    text = refusal(sink, "body STRING", "x", topic="orders", sendMsgTimeout="300")
    said = "Broker broker-a did not respond" if kind == REMOTING else "No broker responded"
    assert f"BrokerUnavailable: Cannot write rows to topic orders: {said} to {SENDS[kind]}" in text


@needs("faults")
def test_the_sink_waits_for_a_broker_that_comes_back(serve: ServeSink, kind: str) -> None:
    sink = serve()
    sink.server.broker.faults.disconnect(SENDS[kind], times=3)
    sink.write(sink.rows("body STRING", ("x",)), topic="orders")
    assert sink.bodies("orders") == [b"x"]


@needs("stages")
def test_without_a_commit_nothing_is_readable_and_the_stages_are_dropped(serve: ServeSink) -> None:
    """The code is one that the sink does not retry."""
    sink = serve()
    sink.server.broker.faults.fail("CommitStages", "BAD_REQUEST", "no", times=None)
    assert "responded to CommitStages with BAD_REQUEST: no" in refusal(sink, "body STRING", "x", topic="orders")
    assert sink.bodies("orders") == []
    assert sink.server.broker.look(lambda state: len(state.stages.all())) == 0


@needs("stages")
def test_a_commit_whose_response_is_lost_is_retried_and_takes_effect_once(serve: ServeSink) -> None:
    sink = serve({"orders": 1, "copies": 1})
    sink.server.send("orders", b"1", b"2")
    sink.server.broker.faults.drop("CommitStages", times=1, after=True)
    sink.run(sink.stream("orders").select("body"), topic="copies", requestTimeoutMs="2000")
    assert sorted(sink.bodies("copies")) == [b"1", b"2"]


@ONCE_OVER_EACH_PROTOCOL
def test_a_secret_is_in_no_error(serve: ServeSink) -> None:
    sink = serve()
    text = refusal(sink, "body STRING", None, topic="orders", accessKey="who", secretKey="s3cr3t")
    assert "its body is null" in text
    assert "s3cr3t" not in text
