"""Pops that need time, on the emulator and on a real Apache RocketMQ: what is redelivered, and what waits.

They are stories of raw requests, and no random sequences.
"""

from __future__ import annotations

import dataclasses

import pytest

from rmqpull_proto.remoting.codes import RequestCode
from tests.differential.both import Both
from tests.differential.send_steps import begin
from tests.differential.steps import OWN, Step, encode_batch

SHORT, LONG = "1000", "600000"
PLACE = {"consumerGroup": f"{OWN}readers", "topic": f"{OWN}orders", "queueId": "0"}
RECEIPT = {
    "consumerGroup": "⟨popgroup 0⟩",
    "topic": "⟨poptopic 0⟩",
    "queueId": "⟨popqueue 0⟩",
    "offset": "⟨popoffset 0⟩",
    "extraInfo": "⟨receipt 0⟩",
}
ACK = Step("acknowledge", RequestCode.ACK_MESSAGE, RECEIPT)
PEEK = Step("peek", RequestCode.PEEK_MESSAGE, {**PLACE, "maxMsgNums": "32"})


def pop(invisible_ms: str = SHORT, **changed: str) -> Step:
    fields = {"maxMsgNums": "1", "invisibleTime": invisible_ms, "pollTime": "0", "bornTime": "0", "initMode": "0"}
    return Step("pop", RequestCode.POP_MESSAGE, {**PLACE, **fields, **changed})


def change(invisible_ms: str) -> Step:
    fields = {**RECEIPT, "invisibleTime": invisible_ms}
    return Step("change the invisible time", RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)


def test_a_message_is_redelivered_until_it_is_acknowledged(both: Both) -> None:
    """It comes by the retry topic, with its attempts counted."""
    both.do(pop())
    both.do_until_found(pop())
    both.do_until_found(pop(LONG))
    both.do(ACK)
    both.do(PEEK)
    both.do(pop())


def test_an_expired_receipt_is_taken(both: Both) -> None:
    """After the message has been redelivered, an acknowledgement of its first delivery changes nothing."""
    both.do(pop())
    first = {name: text.replace(" 0⟩", " 1⟩") for name, text in RECEIPT.items()}
    both.do_until_found(pop(LONG))
    assert both.do(dataclasses.replace(ACK, fields=first)).code == 0
    both.do(ACK)
    both.do(pop())


def test_a_changed_message_is_redelivered_by_the_retry_topic(both: Both) -> None:
    both.do(pop(LONG))
    both.do(change(SHORT))
    both.do_until_found(pop(LONG))
    both.do(change(SHORT))
    both.do_until_found(pop(LONG))
    both.do(ACK)


def test_in_order_a_message_is_redelivered_in_its_queue(both: Both) -> None:
    """With the number of its deliveries in ``orderCountInfo``."""
    in_order = {"order": "true", "attemptId": "a"}
    both.do(pop(**in_order))
    both.do(pop(**in_order | {"attemptId": "b"}))
    for attempt in "cd":
        both.do_until_found(pop(**in_order | {"attemptId": attempt}))
    both.do_until_found(pop(LONG, **in_order | {"attemptId": "e"}))
    both.do(change(SHORT))
    both.do_until_found(pop(LONG, **in_order | {"attemptId": "f"}))
    both.do(ACK)
    both.do(pop(LONG, **in_order | {"attemptId": "g"}))


def test_in_order_many_messages_are_redelivered(both: Both) -> None:
    """The entries of ``orderCountInfo`` are in the order of a Java map."""
    for _ in range(21):
        both.do(SEND)
    both.do(pop(LONG, order="true", attemptId="a", maxMsgNums="10"))
    for number in range(10):
        fields = {name: text.replace(" 0⟩", f" {number}⟩") for name, text in RECEIPT.items()}
        both.do(dataclasses.replace(ACK, fields=fields))
    both.do(pop(SHORT, order="true", attemptId="b", maxMsgNums="12"))
    answer = both.do_until_found(pop(SHORT, order="true", attemptId="c", maxMsgNums="12"))
    entries = [f"0 qo0%{offset} 1" for offset in (16, 17, 18, 19, 20, 21, 10, 11, 12, 13, 14, 15)]
    assert answer.fields["orderCountInfo"] == ";".join((*entries, "0 0 1"))


# --- pops that wait ---------------------------------------------------------------------------------------------------

WAITS = {"pollTime": "8000"}
VAIN = {"pollTime": "400"}
SEND = begin("orders")
NOTIFY = Step("notify", RequestCode.NOTIFICATION, {**PLACE, "pollTime": "0", "bornTime": "0"})
ALL_QUEUES = {"queueId": "-1"}


def notify(**changed: str) -> Step:
    return dataclasses.replace(NOTIFY, fields={**NOTIFY.fields, **changed})


@pytest.mark.parametrize("queue", [{}, ALL_QUEUES])
def test_a_waiting_pop_gets_the_next_message(both: Both, queue: dict[str, str]) -> None:
    both.do(pop(LONG))
    waiting = both.hold(pop(LONG, **WAITS, **queue))
    both.do(SEND)
    assert both.end(waiting).code == 0


def test_a_pop_that_waits_in_vain(both: Both) -> None:
    """210, with the fields of a pop that found nothing."""
    both.do(pop(LONG))
    for changed in ({}, ALL_QUEUES, {"order": "true"}, {"exp": "green"}):
        assert both.do(pop(LONG, **VAIN, **changed)).code == 210


def test_a_waiting_pop_gets_what_its_filter_lets_through(both: Both) -> None:
    """A message of another tag does not end the wait."""
    both.do(pop(LONG))
    waiting = both.hold(pop(LONG, **WAITS, exp="red", expType="TAG"))
    both.do(SEND)
    assert both.end(waiting).code == 0
    waiting = both.hold(pop(LONG, **VAIN, exp="green", expType="TAG"))
    both.do(SEND)
    assert both.end(waiting).code == 210


def test_an_acknowledgement_in_order_ends_a_wait(both: Both) -> None:
    """The next batch is delivered to the pop that waits for it."""
    both.do(SEND)
    both.do(pop(LONG, order="true", attemptId="a"))
    waiting = both.hold(pop(LONG, order="true", attemptId="b", **WAITS))
    both.do(ACK)
    assert both.end(waiting).fields["msgOffsetInfo"] == "0 0 1"


def test_the_end_of_the_invisible_time_in_order_ends_a_wait(both: Both) -> None:
    both.do(pop(SHORT, order="true", attemptId="a"))
    answer = both.do(pop(LONG, order="true", attemptId="b", **WAITS))
    assert answer.fields["orderCountInfo"] == "0 qo0%0 1;0 0 1"


def test_notifications_wait_too(both: Both) -> None:
    both.do(notify(**WAITS))  # there is a message
    both.do(pop(LONG))
    both.do(notify(**VAIN))
    for queue in ({}, ALL_QUEUES):
        waiting = both.hold(notify(**WAITS, **queue))
        both.do(SEND)
        assert both.end(waiting).fields["hasMsg"] == "true"
        both.do(pop(LONG))


NOW, BEFORE, NEVER = "0", "-1", str(2**63 - 1)


@pytest.mark.parametrize("invisible_ms", [NOW, BEFORE, NEVER])
def test_invisible_times_that_make_no_sense_are_taken(both: Both, invisible_ms: str) -> None:
    assert both.do(pop(invisible_ms)).code == 0
    assert both.do_until_found(pop(LONG)).code == 0


# --- priorities (rules 3.19) ------------------------------------------------------------------------------------------

URGENT = f"{OWN}urgent"


def put_topic(name: str = URGENT, attributes: str = "+message.type=PRIORITY") -> Step:
    fields = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": attributes,
    }
    return Step("put a topic", RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def send(properties: str, topic: str = URGENT, batch: bool = False) -> Step:
    fields = {
        "producerGroup": "producers",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": "" if batch else properties,
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": str(batch).lower(),
    }
    body = encode_batch([(b"x", properties)]) if batch else b"x"
    return Step("send", RequestCode.SEND_MESSAGE, fields, body)


def by_priority(text: str) -> str:
    return f"_SYS_MSG_PRIORITY_\1{text}\2"


ODD_PRIORITIES = ("-1", "x", "+2", "2147483647", "2147483648", "007", " 1")


@pytest.mark.parametrize("attributes", ["+message.type=PRIORITY", "+message.type=FIFO", ""])
def test_a_priority_chooses_the_queue_of_a_single_message(both: Both, attributes: str) -> None:
    """Whatever the type of the topic is. Other types of messages lose their priority, and batches keep all."""
    both.do(put_topic(attributes=attributes))
    for text in ("0", "2", "3", "4", *ODD_PRIORITIES):
        both.do(send(by_priority(text)))
    for others in ("__SHARDINGKEY\1g\2", "DELAY\x010\2", "TRAN_MSG\1false\2", "TAGS\1red\2"):
        both.do(send(by_priority("3") + others))
    assert both.do(send(by_priority("3"), batch=True)).fields["queueId"] == "1"
    for queue_id in range(4):
        assert both.do(pop(LONG, topic=URGENT, queueId=str(queue_id), maxMsgNums="32")).code == 0


def test_pops_by_priority_begin_with_the_last_queue(both: Both) -> None:
    """What is redelivered comes after the rest, also in pops that would look at it first for another topic."""
    both.do(put_topic())
    for text in ("0", "2", "9", "3", "1"):
        both.do(send(by_priority(text)))
    everywhere = {"topic": URGENT, **ALL_QUEUES}
    for _ in range(2):
        assert both.do(pop(SHORT, maxMsgNums="2", **everywhere)).code == 0
    both.do_until_found(pop(LONG, **everywhere, maxMsgNums="1"))
    for text in ("1", "3", "2") * 4:
        both.do(send(by_priority(text)))
    for _ in range(12):
        assert both.do(pop(LONG, **everywhere, maxMsgNums="1")).code == 0


def test_a_pop_of_another_topic_goes_down_from_a_random_queue(both: Both) -> None:
    both.do(put_topic(attributes=""))
    for text in "0123":
        both.do(send(by_priority(text)))
    answer = both.do(pop(LONG, topic=URGENT, **ALL_QUEUES, maxMsgNums="32"))
    assert answer.fields["restNum"] == "0"
