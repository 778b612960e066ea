"""A write that cannot succeed ends with an error that names the reason. Exactly-once makes nothing of it readable."""

from __future__ import annotations

import datetime
import re

import pytest
from pyspark.errors import PySparkException

from pyspark_rmqpull.sink.invalid_rows import REASON, TOPIC
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.model import PERM_READ, TopicConfig, TopicType
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.testing import Topics
from tests.harness.spark_sink import ServeSink, SinkHarness

NOBODY = "127.0.0.1:1"  # a port that no broker gets
EXACTLY_ONCE = pytest.mark.parametrize("extensions", ["columns,admin,stages"])
STANDARD = pytest.mark.parametrize("extensions", ["none"])
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
    given = {"endpoints": sink.broker.endpoints, **options}
    written = sink.rows(schema, *[row if isinstance(row, tuple) else (row,) for row in rows])
    with pytest.raises(PySparkException) as refused:
        written.write.format("rmqpull").options(**given).mode(mode).save()
    return str(refused.value)


@EXACTLY_ONCE
@pytest.mark.parametrize(
    ("schema", "given", "sentence"),
    [
        ("body STRING", {}, "OptionError: The rows have no topic. Set option topic, or add a column topic."),
        ("topic STRING", {}, "OptionError: Column body is missing. The sink takes body BINARY or STRING, topic"),
        ("body STRING, topic INT", {}, "OptionError: Column topic is INT; it must be STRING."),
        ("body STRING, value STRING", {}, "OptionError: The sink does not know column value."),
        ("body STRING", {"topic": "order"}, "Create it first: rmqpull-broker topic create order"),
        ("body STRING", {"topic": "orders", "keySerializer": "x"}, "OptionError: Unknown option keyserializer."),
        ("body STRING", {"topic": "orders", "consumerGroup": "g"}, "OptionError: Option consumerGroup is for reads"),
        ("body STRING", {"topic": "halves"}, "OptionError: Topic halves takes only transactional messages"),
        ("body STRING", {"topic": "groups"}, "takes only FIFO messages, which need a column messageGroup."),
        ("body STRING", {"topic": "late"}, "takes only DELAY messages, which need a column deliveryTimestamp."),
        (
            "body STRING",
            {"topic": "orders", "endpoints": NOBODY, "requestTimeoutMs": "100"},
            f"BrokerUnavailable: No broker responded to DescribeServer at {NOBODY} within 100 ms",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_write_is_refused_when_it_is_planned(
    serve: ServeSink, schema: str, given: dict[str, str], sentence: str
) -> None:
    """Acceptance cases 65, 66, 67 and 68."""
    sink = serve(TOPICS)
    assert sentence in refusal(sink, schema, **given)


@EXACTLY_ONCE
def test_a_view_with_options_for_reading_takes_no_inserts(serve: ServeSink) -> None:
    sink = serve({"orders": 1})
    sink.broker.send("orders", b"1")
    options = f"endpoints '{sink.broker.endpoints}', topic 'orders', startingTimestamp '2020-01-01'"
    sink.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW since_2020 USING rmqpull OPTIONS ({options})")
    sentence = (
        "Option startingTimestamp is for reads, and this is a write. Remove it. If it comes from a SQL view, create"
    )
    with pytest.raises(PySparkException, match=sentence):
        sink.spark.sql("INSERT INTO since_2020 SELECT * FROM since_2020")
    assert sink.spark.sql("SELECT * FROM since_2020").count() == len(sink.bodies("orders")) == 1


@EXACTLY_ONCE
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


@STANDARD
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


FAR = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=3)


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
        ("topic STRING, body STRING, messageGroup STRING", ("groups", "x", None), "Invalid row for topic groups"),
        ("topic STRING, body STRING, messageGroup STRING", ("orders", "x", "g"), "with messageGroup 'g'"),
        (
            "topic STRING, body STRING, deliveryTimestamp TIMESTAMP",
            ("late", "x", FAR),
            "Invalid row for topic late with a",
        ),
    ],
    ids=["null topic", "null body", "topic", "size", "tag", "property", "no group", "group", "time"],
)
def test_an_invalid_row_ends_the_write_and_is_described(
    serve: ServeSink, extensions: str, schema: str, row: tuple[object, ...], sentence: str
) -> None:
    """Acceptance cases 67 and 73."""
    sink = serve(TOPICS)
    good = ("others", "good", *[None] * (len(row) - 2))
    assert sentence in refusal(sink, schema, good, row, maxMessageSize="4")
    if "stages" in extensions:
        assert sink.bodies("others") == []


@pytest.mark.parametrize("wanted", ["skip", "deadLetter"])
def test_invalid_rows_are_skipped_or_become_dead_letters(serve: ServeSink, wanted: str) -> None:
    sink = serve({"orders": 1, "dead": 1})
    rows = sink.rows("body STRING, tags STRING", ("1", None), (None, "t"), ("2", "a|b"), ("3", None))
    options = {"deadLetterTopic": "dead"} if wanted == "deadLetter" else {}
    sink.write(rows, topic="orders", onInvalidRow=wanted, **options)
    assert sink.bodies("orders") == [b"1", b"3"]
    letters = {row.message.body: row.message.properties for row in sink.broker.messages("dead")}
    if wanted == "skip":
        assert letters == {}
    else:
        assert set(letters) == {b"(no body)", b"2"}
        assert letters[b"(no body)"][REASON] == "its body is null"
        assert {letter[TOPIC] for letter in letters.values()} == {"orders"}


def test_the_error_names_a_topic_without_write_permission(serve: ServeSink) -> None:
    sink = serve({"others": 1})

    def only_read(draft: Draft) -> None:
        put_topic(draft, TopicConfig("orders", 1, 1, perm=PERM_READ, creation_id="x"))

    sink.broker.change(only_read)
    for text in (
        refusal(sink, "body STRING", "x", topic="orders"),
        refusal(sink, "topic STRING, body STRING", ("others", "1"), ("orders", "2")),
    ):
        assert "OptionError: Cannot write to topic orders: " in text
        assert "Give it write permission: rmqpull-broker topic update orders --perm 6" in text


SENDS = {"columns,admin,stages": "StageColumns", "columns,admin": "PublishColumns", "none": "SendMessage"}


def test_a_full_disk_ends_the_write_with_the_topic_in_the_error(serve: ServeSink, extensions: str) -> None:
    sink = serve()
    sink.broker.faults.fail(SENDS[extensions], "INTERNAL_SERVER_ERROR", "the broker's disk is full", times=None)
    text = refusal(sink, "body STRING", "x", topic="orders")
    assert re.search(r"BrokerFailed: Cannot write rows to topic orders: .* the broker.s disk is full", text)


def test_a_broker_that_stays_away_ends_the_write_with_the_topic_in_the_error(serve: ServeSink, extensions: str) -> None:
    sink = serve()
    sink.broker.faults.disconnect(SENDS[extensions], times=None)
    text = refusal(sink, "body STRING", "x", topic="orders", sendMsgTimeout="300")
    assert f"BrokerUnavailable: Cannot write rows to topic orders: No broker responded to {SENDS[extensions]}" in text


def test_the_sink_waits_for_a_broker_that_comes_back(serve: ServeSink, extensions: str) -> None:
    sink = serve()
    sink.broker.faults.disconnect(SENDS[extensions], times=3)
    sink.write(sink.rows("body STRING", ("x",)), topic="orders")
    assert sink.bodies("orders") == [b"x"]


@EXACTLY_ONCE
def test_without_a_commit_nothing_is_readable_and_the_stages_are_dropped(serve: ServeSink) -> None:
    """The code is one that the sink does not retry."""
    sink = serve()
    sink.broker.faults.fail("CommitStages", "BAD_REQUEST", "no", times=None)
    assert "responded to CommitStages with BAD_REQUEST: no" in refusal(sink, "body STRING", "x", topic="orders")
    assert sink.bodies("orders") == []
    assert sink.broker.look(lambda state: len(state.stages.all())) == 0


@EXACTLY_ONCE
def test_a_commit_whose_response_is_lost_is_retried_and_takes_effect_once(serve: ServeSink) -> None:
    sink = serve({"orders": 1, "copies": 1})
    sink.broker.send("orders", b"1", b"2")
    sink.broker.faults.drop("CommitStages", times=1, after=True)
    sink.run(sink.stream("orders").select("body"), topic="copies", requestTimeoutMs="2000")
    assert sorted(sink.bodies("copies")) == [b"1", b"2"]


@EXACTLY_ONCE
def test_a_secret_is_in_no_error(serve: ServeSink) -> None:
    sink = serve()
    text = refusal(sink, "body STRING", None, topic="orders", accessKey="who", secretKey="s3cr3t")
    assert "its body is null" in text
    assert "s3cr3t" not in text
