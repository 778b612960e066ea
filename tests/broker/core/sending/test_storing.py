"""Where checked messages are stored: at once or after a wait, however their bodies are packed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_broker.core.errors import BrokerError, MessageBodyTooLarge
from rmqpull_broker.core.model import BodyEncoding, Message, MessageQueue, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.half_messages import Resolution, TransactionEnd, end_transaction
from tests.harness.core import CoreHarness


@pytest.fixture
def mixed(core: CoreHarness) -> CoreHarness:
    """A broker with a topic of four queues that takes messages of every type."""
    core.state.properties = BrokerProperties(enable_mixed_message_type=True)
    core.topic(queue_count=4, topic_type=TopicType.MIXED)
    return core


def test_a_message_goes_by_its_group_in_a_topic_of_any_type(mixed: CoreHarness) -> None:
    for number in range(2):
        mixed.send(Message(b"x", f"hello {number}", message_group="hello"))
        mixed.send(Message(b"x", f"any {number}"))
    assert [[row.message.msg_id for row in mixed.rows(mixed.queue(n))] for n in range(4)] == [
        ["any 0"],
        ["any 1"],
        [],
        ["hello 0", "hello 1"],
    ]


def test_messages_of_one_request_share_a_turn_whatever_is_between_them(mixed: CoreHarness) -> None:
    mixed.send(Message(b"a", "1"), Message(b"b", "2", message_group="hello"), Message(b"c", "3"))
    assert [len(mixed.rows(mixed.queue(n))) for n in range(4)] == [2, 0, 0, 1]


def test_a_delayed_message_waits_and_comes_to_the_queue_whose_turn_it_was(core: CoreHarness) -> None:
    core.topic(2, TopicType.DELAY)
    message = Message(b"x", "ID", delivery_timestamp_ms=5_500)
    ((queue, row),) = core.run(lambda draft: core.sender.send(draft, "orders", [message], 1_000))
    assert (queue.topic, row.queue_offset) == ("rmq_sys_wheel_timer", 0)
    assert core.rows(core.queue(0)) == []
    core.run(lambda draft: deliver_due(draft, 5_000, "store"))
    assert core.rows(core.queue(0))[0].message.delivery_timestamp_ms == 5_500


def test_a_half_message_waits_for_its_end(core: CoreHarness) -> None:
    core.topic(topic_type=TopicType.TRANSACTION)
    half = Message(b"x", "ID", transactional=True, system_properties={"PGROUP": "orders"})
    ((queue, row),) = core.run(lambda draft: core.sender.send(draft, "orders", [half], 1_000))
    assert (queue.topic, row.queue_offset) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    end = TransactionEnd("ID", "orders", Resolution.COMMIT)
    core.run(lambda draft: end_transaction(draft, end, 2_000, "store"))
    assert [row.message.body for row in core.rows(core.queue())] == [b"x"]


def test_both_forms_are_refused_before_the_broker_is_in_service(core: CoreHarness) -> None:
    core.topic()
    core.state.properties = BrokerProperties(start_accept_send_request_time_stamp=1_001)
    for send in (lambda: core.send(Message(b"x", "1")), lambda: core.fill([b"x"])):
        with pytest.raises(BrokerError, match=r"^broker unable to service, until 1970-01-01 00:00:01,001$"):
            send()
    core.now_ms = 1_001
    core.send(Message(b"x", "1"))


def test_both_forms_keep_within_the_stores_own_limit(core: CoreHarness) -> None:
    core.topic()
    core.state.properties = BrokerProperties(max_message_size=2)
    for send in (lambda: core.send(Message(b"abc", "1")), lambda: core.fill([b"a", b"abc"])):
        with pytest.raises(MessageBodyTooLarge, match="msg body length limit 2B"):
            send()
    core.send(Message(b"ab", "1"))
    core.fill([b"ab"])


# Each is "hello " ten times, packed by the library of that name.
PACKED = {
    BodyEncoding.GZIP: "1f8b0800000000000003cb48cdc9c957c8208b0400e44dd0593c000000",
    BodyEncoding.ZLIB: "785ecb48cdc9c957c8208b0400a6c01609",
    BodyEncoding.LZ4: "04224d18604082100000006f68656c6c6f2006001e50656c6c6f2000000000",
    BodyEncoding.ZSTD: "28b52ffd203c6500003068656c6c6f200100cb598a",
}


@pytest.mark.parametrize("encoding", PACKED)
def test_a_packed_body_passes_through_with_the_way_it_is_packed(core: CoreHarness, encoding: BodyEncoding) -> None:
    core.topic()
    body = bytes.fromhex(PACKED[encoding])
    core.send(Message(body, "ID", body_encoding=encoding))
    batch = {"body": pa.array([body]), "bodyEncoding": pa.array([int(encoding)], pa.int32())}
    core.publish(pa.record_batch(batch))
    assert [(row.message.body, row.message.body_encoding) for row in core.rows(core.queue())] == [(body, encoding)] * 2


@pytest.mark.parametrize(
    ("encoding", "bit", "kind"), [(BodyEncoding.LZ4, 1, 1), (BodyEncoding.ZSTD, 1, 2), (BodyEncoding.ZLIB, 1, 3)]
)
def test_a_kind_of_packing_is_numbered_by_rocketmqs_system_flag(encoding: BodyEncoding, bit: int, kind: int) -> None:
    assert (encoding & 1, encoding >> 8) == (bit, kind)


def test_the_rows_of_a_batch_have_the_address_of_the_broker_of_their_queue() -> None:
    core = CoreHarness(["broker-a", "broker-b"])
    core.topic()
    core.state.store_hosts = {"broker-b": "127.0.0.1:9877"}
    core.fill([b"one", b"two", b"three"])
    hosts = {
        broker: {row.store_host for row in core.rows(MessageQueue("orders", broker, 0))}
        for broker in ("broker-a", "broker-b")
    }
    assert hosts == {"broker-a": {core.sender.store_host}, "broker-b": {"127.0.0.1:9877"}}
