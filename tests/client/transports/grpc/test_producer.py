"""Sends to all kinds of servers, in transactions if they have them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pyarrow as pa
import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import RunningBroker, Topics, running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerUnavailable, RequestRefused, TransactionTaken
from rmqpull_client.transports.choice import get_producer
from rmqpull_client.transports.grpc.channel import BrokerChannel, get_channel
from rmqpull_client.transports.grpc.producer import GrpcProducer
from rmqpull_client.transports.port import CommitRecord, Producer, TopicParts, TransactionId
from rmqpull_client.transports.property_rules import KEPT_BY_PROXIES, KEPT_IN_COLUMNS, PropertyRules
from rmqpull_proto import columns as wire
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.remoting.properties import PRIORITY

BATCH = TransactionId("query", 7)
RECORD = CommitRecord(b"plan", "orders", 1, b"digest")
EVERYTHING = "columns,admin,stages"
TOPICS: Topics = {
    "orders": 2,
    "late": (1, TopicType.DELAY),
    "groups": (4, TopicType.FIFO),
    "halves": (1, TopicType.TRANSACTION),
}


@pytest.fixture
def broker(extensions: str) -> Iterator[RunningBroker]:
    with running_broker(TOPICS, extensions=extensions) as running:
        yield running


@pytest.fixture
def producer(broker: RunningBroker) -> Iterator[Producer]:
    connection = Connection(broker.endpoints, 60_000)
    yield get_producer(connection)
    get_channel(connection).close()


def bodies(broker: RunningBroker, topic: str = "orders") -> list[bytes]:
    return [row.message.body for row in broker.messages(topic)]


def rows(*texts: bytes) -> pa.RecordBatch:
    return pa.record_batch({"body": list(texts)})


def of(topic: str, *texts: bytes) -> tuple[TopicParts, pa.RecordBatch]:
    """A batch of one topic."""
    return [(topic, len(texts))], rows(*texts)


every_kind = pytest.mark.parametrize("extensions", [EVERYTHING, "columns,admin", "none"])
with_stages = pytest.mark.parametrize("extensions", [EVERYTHING])


@every_kind
def test_the_extensions_of_a_server_are_its_abilities(producer: Producer, extensions: str) -> None:
    abilities = producer.abilities
    assert (abilities.no_columns is None) == ("columns" in extensions)
    assert (abilities.no_stages is None) == ("stages" in extensions)
    assert abilities.compress_types == ({"ZLIB"} if extensions == "none" else {"ZLIB", "LZ4", "ZSTD"})
    if extensions == "none":
        assert abilities.no_stages == "it has no extension stages of rmqpull.v1"


@every_kind
def test_topics_have_message_types(producer: Producer) -> None:
    kinds = {name: set(producer.query_message_types(name)) for name in TOPICS}
    assert kinds == {"orders": {"NORMAL"}, "late": {"DELAY"}, "groups": {"FIFO"}, "halves": {"TRANSACTION"}}


@every_kind
def test_the_queues_of_a_topic_are_counted(broker: RunningBroker, producer: Producer, extensions: str) -> None:
    broker.create_topic("wide", 3)
    assert [producer.count_queues(name) for name in ("orders", "wide")] == [2, 3]
    assert producer.abilities.takes_slice_rows == ("columns" in extensions)


@with_stages
def test_calls_say_how_many_rows_go_to_one_queue_at_least(broker: RunningBroker, producer: Producer) -> None:
    for name in ("wide", "other"):
        broker.create_topic(name, 4)
    one, two = [("wide", 4)], [("wide", 4), ("other", 4)]
    producer.start_publish(one, rows(*[b"x"] * 4), False, {"wide": 4})()
    producer.start_publish(two, rows(*[b"x"] * 8), False, {"other": 2})()
    producer.start_stage(BATCH, "s", 0, one, rows(*[b"x"] * 4), False, 60_000, {"wide": 2})()
    producer.commit_stages(BATCH, [("s", 1)], 0)
    sizes = {name: [bounds.max_offset for bounds in broker.bounds(name).values()] for name in ("wide", "other")}
    assert sizes == {"wide": [5, 3, 3, 1], "other": [2, 2, 0, 0]}


@every_kind
def test_a_missing_or_read_only_topic_is_refused(broker: RunningBroker, producer: Producer) -> None:
    with pytest.raises(RequestRefused) as refused:
        producer.query_message_types("order")
    assert refused.value.code == "TOPIC_NOT_FOUND"


@pytest.mark.parametrize(("extensions", "rules"), [("columns,admin", KEPT_IN_COLUMNS), ("none", KEPT_BY_PROXIES)])
def test_only_a_server_with_columns_keeps_empty_properties(producer: Producer, rules: PropertyRules) -> None:
    """The broker behind another one stores none."""
    assert producer.abilities.property_rules is rules


@every_kind
def test_a_standard_message_has_all_values_of_its_row(broker: RunningBroker, producer: Producer) -> None:
    row = {"body": b"x", "tags": "paid", "keys": ["a", "b"], "properties": [("own", "1")], "bodyEncoding": 1}
    producer.start_send("orders", row)()
    (message,) = (row.message for row in broker.messages("orders"))
    assert (message.body, message.tags, list(message.keys)) == (b"x", "paid", ["a", "b"])
    assert dict(message.properties) == {"own": "1"}


@every_kind
def test_message_groups_and_delivery_times_decide_the_message_type(broker: RunningBroker, producer: Producer) -> None:
    past_us = int((datetime.now(timezone.utc) - timedelta(hours=1)).timestamp() * 1_000_000)
    producer.start_send("groups", {"body": b"x", "messageGroup": "g"})()
    producer.start_send("late", {"body": b"x", "deliveryTimestamp": past_us})()
    assert [row.message.message_group for row in broker.messages("groups")] == ["g"]
    assert bodies(broker, "late") == [b"x"]
    with pytest.raises(RequestRefused) as refused:
        producer.start_send("groups", {"body": b"x"})()
    assert refused.value.code == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@every_kind
def test_a_priority_chooses_the_queue(broker: RunningBroker, producer: Producer) -> None:
    broker.create_topic("urgent", 3, TopicType.PRIORITY)
    assert producer.abilities.takes_priorities
    if producer.abilities.no_columns is None:
        batch = pa.record_batch({"body": [b"0", b"9"], "priority": pa.array([0, 9], pa.int32())})
        producer.start_publish([("urgent", 2)], batch, by_keys=False)()
    else:
        for priority in (0, 9):
            producer.start_send("urgent", {"body": b"%d" % priority, "priority": priority})()
    stored = {row.message.body: row.message.system_properties[PRIORITY] for row in broker.messages("urgent")}
    assert stored == {b"0": "0", b"9": "9"}
    with pytest.raises(RequestRefused, match="greater than or equal to 0"):
        producer.start_send("urgent", {"body": b"x", "priority": -1})()


@pytest.mark.parametrize("extensions", [EVERYTHING, "columns,admin"])
def test_a_batch_in_columns_is_readable_after_the_response(broker: RunningBroker, producer: Producer) -> None:
    producer.start_publish(*of("orders", b"1", b"2", b"3"), by_keys=False)()
    assert sorted(bodies(broker)) == [b"1", b"2", b"3"]


def test_columns_that_are_all_null_are_not_sent() -> None:
    started: list[Any] = []

    class Channel:
        def start(self, method: Any, request: Any) -> None:
            started.append(request)

    texts, nothing = pa.array(["a", None]), pa.nulls(2, pa.string())
    batch = pa.record_batch({"body": [b"1", b"2"], "tags": nothing, "messageGroup": texts, "brokerName": nothing})
    producer = GrpcProducer(cast("BrokerChannel", Channel()))
    producer.start_publish([("orders", 2)], batch, by_keys=False)
    producer.start_stage(BATCH, "s", 0, [("orders", 2)], batch, False, 60_000)
    for request in started:
        (sent,) = read_stream(request.arrow_ipc, wire.PUBLISH_SCHEMA)
        # An absent brokerName would be refused beside a queueId.
        assert sent == batch.select(["body", "messageGroup", "brokerName"])


@with_stages
def test_a_call_may_be_for_several_topics(broker: RunningBroker, producer: Producer) -> None:
    broker.create_topic("paid")
    parts = [("orders", 2), ("paid", 1)]
    assert producer.abilities.topics_per_call_max == 1_000
    producer.start_publish(parts, rows(b"1", b"2", b"3"), by_keys=False)()
    producer.start_stage(BATCH, "s", 0, parts, rows(b"4", b"5", b"6"), False, 60_000)()
    producer.commit_stages(BATCH, [("s", 1)], 0)
    assert sorted(bodies(broker)) == [b"1", b"2", b"4", b"5"]
    assert sorted(bodies(broker, "paid")) == [b"3", b"6"]


@pytest.mark.parametrize("extensions", ["none"])
def test_a_server_without_a_topic_limit_gets_one_topic_per_call(producer: Producer) -> None:
    assert producer.abilities.topics_per_call_max == 1


@with_stages
def test_a_stage_is_readable_once_after_its_commit(broker: RunningBroker, producer: Producer) -> None:
    answers = [
        producer.start_stage(BATCH, "s", place, *of("orders", b"%d" % place), False, 60_000)() for place in (5, 0)
    ]
    assert [answer.is_committed for answer in answers] == [False, False]
    assert bodies(broker) == []
    for _ in range(2):
        producer.commit_stages(BATCH, [("s", 2)], 0)
    assert sorted(bodies(broker)) == [b"0", b"5"]
    assert producer.start_stage(BATCH, "t", 0, *of("orders", b"x"), False, 60_000)().is_committed


@pytest.mark.parametrize("extensions", ["columns,admin", "none"])
def test_the_error_of_a_server_without_transactions_says_so(producer: Producer) -> None:
    with pytest.raises(RequestRefused, match=r"does not serve DropStages\..* it lacks rmqpull.v1.StageService"):
        producer.drop_stages(BATCH)


@with_stages
def test_dropped_stages_cannot_be_committed(broker: RunningBroker, producer: Producer) -> None:
    producer.start_stage(BATCH, "s", 0, *of("orders", b"1"), False, 60_000)()
    producer.keep_stages(BATCH, 60_000)
    producer.drop_stages(BATCH)
    with pytest.raises(RequestRefused, match="stage s does not exist"):
        producer.commit_stages(BATCH, [("s", 1)], 0)
    assert bodies(broker) == []


@with_stages
def test_a_commit_that_takes_longer_than_a_request_is_repeated(broker: RunningBroker) -> None:
    hasty = get_producer(Connection(broker.endpoints, 500, request_retries=0))
    hasty.start_stage(BATCH, "s", 0, *of("orders", b"1"), False, 60_000)()
    broker.faults.drop("CommitStages", times=1)
    with pytest.raises(BrokerUnavailable):
        hasty.commit_stages(BATCH, [("s", 1)], 0)
    broker.faults.drop("CommitStages", times=2)
    hasty.commit_stages(BATCH, [("s", 1)], 60_000)
    assert bodies(broker) == [b"1"]


@with_stages
def test_the_outcome_of_a_commit_that_keeps_failing_is_unknown(broker: RunningBroker, producer: Producer) -> None:
    """As if the disk were full while the broker stores the rows of a committed transaction."""
    producer.start_stage(BATCH, "s", 0, *of("orders", b"1"), False, 60_000)()
    broker.faults.fail("CommitStages", "INTERNAL_SERVER_ERROR", times=1, after=True)
    with pytest.raises(BrokerUnavailable, match="responded to CommitStages with INTERNAL_SERVER_ERROR"):
        producer.commit_stages(BATCH, [("s", 1)])
    broker.faults.fail("CommitStages", "INTERNAL_SERVER_ERROR", times=2)
    assert producer.commit_stages(BATCH, [("s", 1)], 60_000, RECORD)[:2] == (True, False)  # the first had no record
    assert bodies(broker) == [b"1"]
    broker.faults.fail("CommitStages", "FORBIDDEN", times=1)
    with pytest.raises(RequestRefused, match="FORBIDDEN"):
        producer.commit_stages(BATCH, [("s", 1)], 60_000)


@with_stages
def test_a_commit_that_lacks_rows_is_refused_and_nothing_of_it_is_readable(
    broker: RunningBroker, producer: Producer
) -> None:
    producer.start_stage(BATCH, "s", 0, *of("orders", b"1"), False, 60_000)()
    lost: list[tuple[list[tuple[str, int]], int | None]] = [([], None), ([("s", 0)], None), ([("s", 1)], 2)]
    for stages, row_count in lost:
        with pytest.raises(RequestRefused, match="rows would be lost") as refused:
            producer.commit_stages(BATCH, stages, record=RECORD, row_count=row_count)
        assert refused.value.code == "PRECONDITION_FAILED"
    assert bodies(broker) == []
    assert producer.commit_stages(BATCH, [("s", 1)], record=RECORD, row_count=1)[:2] == (False, False)
    assert producer.commit_stages(BATCH, [], record=RECORD, row_count=1)[:2] == (True, True)
    assert bodies(broker) == [b"1"]


@with_stages
def test_a_commit_is_compared_with_the_one_of_the_same_number(broker: RunningBroker, producer: Producer) -> None:
    producer.start_stage(BATCH, "s", 0, *of("orders", b"1"), False, 60_000)()
    assert producer.commit_stages(BATCH, [("s", 1)], record=RECORD)[:2] == (False, False)
    assert producer.commit_stages(BATCH, [], record=RECORD)[:2] == (True, True)
    with pytest.raises(TransactionTaken, match="it was planned again, and the rows differ"):
        producer.commit_stages(BATCH, [], record=RECORD._replace(plan=b"another", digest=b"another"))
    older = BATCH._replace(batch_id=0)
    with pytest.raises(TransactionTaken, match="is older than batch"):
        producer.start_stage(older, "s", 0, *of("orders", b"1"), False, 60_000)()


@pytest.mark.parametrize("extensions", [EVERYTHING, "columns,admin", "none"])
def test_names_are_in_the_namespace(extensions: str) -> None:
    with running_broker({"shop%orders": 1, "orders": 1}, extensions=extensions) as broker:
        producer = get_producer(Connection(broker.endpoints, 60_000, namespace="shop"))
        assert producer.query_message_types("orders") == {"NORMAL"}
        producer.start_send("orders", {"body": b"1"})()
        if "columns" in extensions:
            producer.start_publish(*of("orders", b"2"), by_keys=False)()
        if "stages" in extensions:
            producer.start_stage(BATCH, "s", 0, *of("orders", b"3"), False, 60_000)()
            producer.commit_stages(BATCH, [("s", 1)])
        wanted = {EVERYTHING: [b"1", b"2", b"3"], "columns,admin": [b"1", b"2"], "none": [b"1"]}
        assert bodies(broker, "shop%orders") == wanted[extensions]
        assert bodies(broker) == []
