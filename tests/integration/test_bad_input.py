"""Bad input is refused in one sentence: when the stream is declared, or when it starts if only the broker can tell."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from pyspark_rmqpull.spark_releases.release import SPARK_PASSES_LIMITS
from tests.harness.servers import StartServer
from tests.harness.spark_queries import WAIT_S

NOBODY = "127.0.0.1:1"  # a port that no broker gets


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"endpoints": NOBODY, "topic": "t", "startingOffset": "earliest"},
            "OptionError: Unknown option startingoffset. Did you mean startingOffsets?",
        ),
        ({"topic": "t"}, "OptionError: Option endpoints or nameServers is missing. "),
        ({"endpoints": NOBODY, "namesrvAddr": NOBODY, "topic": "t"}, "RocketMQ's clients is called nameServers here."),
        ({"endpoints": NOBODY}, "OptionError: Option topic is missing. "),
        (
            {"endpoints": NOBODY, "topic": "t", "topicPattern": "t.*"},
            "OptionError: Options topic and topicPattern exclude each other.",
        ),
        (
            {"endpoints": NOBODY, "topic": "t", "startingOffsets": '{"t":{"broker-a":{"0":-1}}}'},
            "t/broker-a/0 is set to -1. Expected",
        ),
        ({"endpoints": NOBODY, "topicPattern": "("}, "OptionError: Option topicPattern is '('. It is not a regular"),
        ({"endpoints": NOBODY, "assign": "t"}, "OptionError: Option assign is 't'. It is not valid JSON"),
        (
            {"endpoints": NOBODY, "topic": "t", "startingOffsets": "{"},
            "OptionError: Option startingOffsets is '{'. It is neither a known word nor valid JSON",
        ),
        (
            {"endpoints": NOBODY, "topic": "t", "maxOffsetsPerTrigger": "0"},
            "OptionError: Option maxOffsetsPerTrigger is '0'. Expected an integer from 1",
        ),
        (
            {"endpoints": NOBODY, "topic": "t", "minPartitions": "1.0"},
            "OptionError: Option minPartitions is '1.0'. Expected an integer from 1",
        ),
        (
            {"endpoints": NOBODY, "topic": "t", "allocateStrategy": "AVG_CIRCLE"},
            "OptionError: Option allocateStrategy is 'AVG_CIRCLE'. Did you mean AVG_BY_CIRCLE?",
        ),
        (
            {"endpoints": NOBODY, "topic": "t", "virtualNodeCnt": "3"},
            "OptionError: Option virtualNodeCnt has no effect with allocateStrategy AVG.",
        ),
        (
            {"endpoints": NOBODY, "topic": "t", "startingTimestamp": "2026-03-02", "endingTimestamp": "2026-03-01"},
            "start every queue at 2026-03-02T00:00:00.000Z, after its end at 2026-03-01T00:00:00.000Z.",
        ),
        (
            {"endpoints": NOBODY, "topic": "t", "startingOffsets": "group"},
            "OptionError: Option startingOffsets is group for every queue, but no consumer group is named. Set option "
            "consumerGroup.",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_bad_options_are_refused_when_the_stream_is_declared(
    spark: SparkSession, given: dict[str, str], sentence: str
) -> None:
    """Acceptance cases 32 and 35. Runs once: no server is asked."""
    with pytest.raises(AnalysisException, match=re.escape(sentence)):
        spark.readStream.format("rmqpull").options(**given).load()


def test_a_path_is_refused_when_the_stream_is_declared(spark: SparkSession) -> None:
    """Runs once: no server is asked."""
    source = spark.readStream.format("rmqpull").options(endpoints=NOBODY, topic="t")
    with pytest.raises(AnalysisException, match=r"OptionError: The path 'orders' has no meaning here"):
        source.load("orders")


@pytest.mark.parametrize(
    ("schema", "given", "sentence"),
    [
        (None, {"topic": "order"}, "TopicMissing: Topic order does not exist at "),
        (
            None,
            {"startingOffsets": '{"orders":{"broker-a":{"9":1}}}'},
            "names orders/broker-a/9, which this query does",
        ),
        (
            "value BINARY",
            {},
            "OptionError: The schema has unknown column value. Available columns: topic STRING",
        ),
        ("body BINARY", {"topik": "orders"}, "OptionError: Unknown option topik. Did you mean topic?"),
        (
            None,
            {"allocateStrategy": "MACHINE_ROOM", "consumeridcs": "room1"},
            "OptionError: allocateStrategy MACHINE_ROOM gives no queue of orders/broker-a/0 to any partition",
        ),
        (
            None,
            {"endingTimestamp": "2026-03-01"},
            "OptionError: Option endingTimestamp is for a batch read, and this is a stream.",
        ),
        (None, {"startingTimestamp": "2026-03-01"}, "No offset matched from request of queue orders/broker-a/0"),
    ],
    ids=["topic", "queue", "schema", "option", "rooms", "mode", "time"],
)
def test_an_error_that_load_cannot_see_ends_the_query(
    spark: SparkSession, start_server: StartServer, schema: str | None, given: dict[str, str], sentence: str
) -> None:
    """Acceptance cases 10 and 35: Spark does not say in ``load()`` that it is a stream."""
    server = start_server({"orders": 1})
    source = spark.readStream.format("rmqpull").options(**{**server.options, "topic": "orders"} | given)
    stream = (source.schema(schema) if schema else source).load()
    query = stream.writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match=re.escape(sentence)):
        query.awaitTermination(WAIT_S)


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        ("endpoints", f"BrokerUnavailable: No broker responded to DescribeServer at {NOBODY} within 100 ms"),
        ("nameServers", "BrokerUnavailable: "),
    ],
)
def test_absent_servers_end_the_query(spark: SparkSession, servers: str, sentence: str) -> None:
    """Runs once: there is no server."""
    given = {servers: NOBODY, "requestTimeoutMs": "100", "topic": "orders"}
    query = spark.readStream.format("rmqpull").options(**given).load().writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match=re.escape(sentence)) as refused:
        query.awaitTermination(WAIT_S)
    assert NOBODY in str(refused.value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topic": "order"}, "TopicMissing: Topic order does not exist at "),
        (
            {"maxOffsetsPerTrigger": "1"},
            "Option maxOffsetsPerTrigger is for a stream, and this is a batch read."
            if SPARK_PASSES_LIMITS
            else "A batch read takes none of these options.",
        ),
        ({"startingOffsets": "latest"}, "Option startingOffsets is latest for every queue, so a batch read would"),
        (
            {"startingOffsets": '{"orders":{"broker-a":{"0":2}}}', "endingTimestamp": "1"},
            "OptionError: Queue orders/broker-a/0 starts at offset 2, after its end at offset 0.",
        ),
    ],
    ids=["topic", "mode", "latest", "start after end"],
)
def test_a_batch_read_refuses_in_its_first_action(
    spark: SparkSession, start_server: StartServer, given: dict[str, str], sentence: str
) -> None:
    """Acceptance case 52."""
    server = start_server({"orders": 1})
    server.send("orders", b"one", b"two")
    source = spark.read.format("rmqpull").options(**{**server.options, "topic": "orders"} | given)
    with pytest.raises(PySparkException, match=re.escape(sentence)):
        source.load().collect()
