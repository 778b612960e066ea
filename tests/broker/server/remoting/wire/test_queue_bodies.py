"""Bodies about queues, as Java writes and reads them."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.remoting.wire.json_values import REQUEST_VALUES_MAX
from rmqpull_broker.server.remoting.wire.queue_bodies import (
    AssignmentQuery,
    LockRequest,
    QueueOfBroker,
    decode_assignment_query,
    decode_consumer_status,
    decode_locked,
    decode_offsets,
    encode_assignments,
    encode_consumer_status,
    encode_corrections,
    encode_offset_list,
    encode_offsets,
    write_group_status,
    write_locked,
)
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import DIALECT_COST
from tests.harness.steps import count_steps

QUEUE, OTHER = QueueOfBroker("orders", "broker-a", 1), QueueOfBroker("orders", "broker-b", 0)


def test_locks() -> None:
    request = LockRequest("readers", "ann", (QUEUE, OTHER))
    assert LockRequest.decode(request.encode()) == request
    assert (
        b"".join(filter(None, write_locked([QUEUE])))
        == b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":1,"topic":"orders"}]}'
    )
    assert decode_locked(b"".join(filter(None, write_locked([QUEUE, OTHER])))) == (QUEUE, OTHER)


def test_a_query_of_an_assignment_and_its_answers() -> None:
    body = b'{"topic":"t","consumerGroup":"g","clientId":"c","strategyName":"AVG","messageModel":"CLUSTERING"}'
    assert decode_assignment_query(body) == AssignmentQuery("t", "g", "c", "AVG", "CLUSTERING")
    queue = b'{"brokerName":"broker-a","queueId":1,"topic":"orders"}'
    expected = b'{"messageQueueAssignments":[{"messageQueue":' + queue + b',"mode":"PULL"}]}'
    assert encode_assignments([QUEUE]) == expected
    assert (encode_assignments([]), encode_assignments(None)) == (b'{"messageQueueAssignments":[]}', b"{}")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"messageModel":"other"}'])
def test_a_query_without_a_message_model_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        decode_assignment_query(body)


def test_offsets_have_objects_as_keys() -> None:
    body = encode_offsets({QUEUE: 7, OTHER: 0})
    assert body.startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"orders"}:7,{')
    assert decode_offsets(body) == {QUEUE: 7, OTHER: 0}
    assert decode_consumer_status(encode_consumer_status({QUEUE: 7})) == {QUEUE: 7}
    key = '{"brokerName":"broker-a","queueId":1,"topic":"orders"}'
    assert b"".join(filter(None, write_group_status({"ann": {QUEUE: 7}}))).decode() == (
        f'{{"consumerTable":{{"ann":{{{key}:7}}}},"messageQueueTable":{{}}}}'
    )


def test_the_values_of_a_status_are_counted_before_they_are_read() -> None:
    queues = REQUEST_VALUES_MAX // DIALECT_COST // 4 - 1
    body = encode_consumer_status({QUEUE._replace(queue_id=number): number for number in range(queues)})
    assert len(decode_consumer_status(body)) == queues
    with pytest.raises(WireError, match="expected at most 8192 of them"):
        decode_consumer_status(body.replace(b":7,", b":7," + b"1:2," * 8_192))


def test_queues_to_lock_are_read_in_steps() -> None:
    def count(queues: int) -> int:
        request = LockRequest("g", "c", tuple(QUEUE._replace(queue_id=number) for number in range(queues)))
        read, steps = count_steps(LockRequest.decode_in_steps(request.encode()))
        assert read == request
        return steps

    assert [count(queues) for queues in (0, 1, 1_024, 2_048)] == [0, 1, 2, 4]


def test_offsets_for_a_client_in_cpp_are_a_list() -> None:
    assert encode_offset_list({QUEUE: 7}) == (
        b'{"offsetTable":[{"brokerName":"broker-a","offset":7,"queueId":1,"topic":"orders"}]}'
    )


def test_corrections_have_numbers_as_keys() -> None:
    assert encode_corrections({0: 7, 1: 9}) == b'{"correctionOffsets":{0:7,1:9}}'


@pytest.mark.parametrize("body", [b'{"offsetTable":{"1":2}}', b'{"offsetTable":{{}:"a"}}', b'{"offsetTable":3}'])
def test_a_body_without_queues_and_offsets_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        decode_offsets(body)
