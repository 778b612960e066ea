"""Random sends, send-backs and ends of transactions.

Some bits of a system flag are never sent, as no client does: a real broker stores such messages, and with bit 16 (an
IPv6 born host that is none) it does not get beyond them when it fills its queues.
"""

from __future__ import annotations

from random import Random

from rmqpull_proto.remoting.codes import RequestCode
from tests.differential.names import choose_group, choose_odd_name, choose_topic, write_flag
from tests.differential.steps import OWN, Step, encode_batch

_V1 = """
    producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag properties reconsumeTimes
    unitMode maxReconsumeTimes batch bname
""".split()  # noqa: SIM905 (fourteen lines as a list)
_LETTERS = "abcdefghijklmn"
_BODIES = (b"one", b"two words", bytes(range(256)), b"x" * 5_000, "grün".encode())
_PROPERTIES = (
    *("", "TAGS\1red\2", "TAGS\1blue\2KEYS\1k1 k2\2", "TAGS\1red\2colour\1dark\2size\x012\2", "WAIT\1true\2"),
    *("WAIT\1false\2TAGS\1blue", "UNIQ_KEY\1AB12\2TAGS\1red\2", "KEYS\1\2", "novalue\2", "\1x\2", "a\1b\1c\2"),
    *("__SHARDINGKEY\1g1\2", "TRACE_ON\1false\2MSG_REGION\1Mars\2", "CLUSTER\1Other\2", "size\x01 5\2TAGS\1red \2"),
    *("RECONSUME_TIME\x012\2", "MAX_RECONSUME_TIMES\x013\2", "POP_CK\x010 1\2", "BORN_TIMESTAMP\x015\2", "TAGS\1r|b\2"),
    *("INSTANCE_ID\1i\2", "BUYER_ID\1b\2", "TRAN_MSG\1true\2PGROUP\1p\2", "REAL_TOPIC\1x\2REAL_QID\x011\2", "TAGS\1\2"),
)
_TIMES = ("DELAY\x013\2", "DELAY\x0118\2", "DELAY\x0199\2", "DELAY\x010\2", "DELAY\1-1\2", "DELAY\1x\2")
_DELIVERIES = ("TIMER_DELIVER_MS\1⟨now 60000⟩\2", "TIMER_DELAY_SEC\x0130\2", "TIMER_DELAY_MS\x0145000\2")
_TOO_LATE = ("TIMER_DELIVER_MS\1⟨now 999999999⟩\2", "TIMER_DELIVER_MS\1⟨now -60000⟩\2", "TIMER_DELAY_SEC\x010\2")
_LONG = "p\1" + "v" * 32_760 + "\2"


def _make_send(name: str, code: int, fields: dict[str, str], body: bytes) -> Step:
    if code != RequestCode.SEND_MESSAGE:
        fields = {_LETTERS[_V1.index(key)]: text for key, text in fields.items()}
    return Step(name, code, fields, body)


def _make_fields(random: Random, topic: str, properties: str) -> dict[str, str]:
    fields = {
        "producerGroup": "producers",
        "topic": topic,
        "defaultTopic": random.choices(("TBW102", f"{OWN}orders", f"{OWN}nothing"), (90, 5, 5))[0],
        "defaultTopicQueueNums": random.choice(("2", "2", "2", "1", "4", "100", "0", "-1")),
        "queueId": random.choices(("0", "1", "2", "7"), (60, 34, 3, 3))[0],
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": random.choice(("0", "0", "7", "-1")),
        "properties": properties,
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    if random.random() < 0.3:
        fields["batch"] = "false"
    return fields


def begin(topic: str) -> Step:
    """Returns the send that creates a topic of two queues."""
    fields = _make_fields(Random(0), OWN + topic, "TAGS\1red\2")
    return _make_send(
        "send", 310, fields | {"defaultTopic": "TBW102", "defaultTopicQueueNums": "2", "queueId": "0"}, b"first"
    )


def send_plainly(random: Random) -> Step:
    """A message to a queue that exists, without anything odd."""
    fields = _make_fields(random, f"{OWN}{random.choice(('orders', 'trades'))}", random.choice(_PROPERTIES[:4]))
    fields |= {"defaultTopic": "TBW102", "queueId": random.choice(("0", "0", "1")), "flag": "0"}
    return _make_send("send", RequestCode.SEND_MESSAGE_V2, fields, random.choice(_BODIES))


def send(random: Random) -> Step:
    """A message as producers send it."""
    code = random.choice((RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE_V2))
    fields = _make_fields(random, choose_topic(random), random.choice(_PROPERTIES))
    return _make_send("send", code, fields, random.choice(_BODIES))


def send_oddly(random: Random) -> Step:
    """A message with odd flags, times, sizes, or to a retry topic."""
    properties = random.choice((*_TIMES, *_DELIVERIES, *_TOO_LATE, _LONG, "p\1" + "v" * 40_000 + "\2"))
    fields = _make_fields(random, choose_topic(random), properties)
    fields["sysFlag"] = random.choice(("0", "0", "1", "2", "8", "257"))
    fields["reconsumeTimes"] = random.choice(("0", "1", "15", "16", "17", "99", "-1"))
    if random.random() < 0.3:
        fields["maxReconsumeTimes"] = random.choice(("0", "1", "16", "-1"))
    if random.random() < 0.2:
        fields["topic"] = random.choice(("SCHEDULE_TOPIC_XXXX", "SELF_TEST_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC"))
    body = random.choice((*_BODIES, b"", b"z" * 4_194_304, b"z" * 4_194_305)) if random.random() < 0.1 else b"odd"
    return _make_send("send", RequestCode.SEND_MESSAGE_V2, fields, body)


def send_batch(random: Random) -> Step:
    """Several messages in one request, a few of them with bytes that are no batch."""
    messages = [(random.choice(_BODIES), random.choice(_PROPERTIES)) for _ in range(random.choice((1, 2, 3, 40)))]
    body = encode_batch(messages)
    if random.random() < 0.1:
        body = random.choice((b"", body[:-1], body[:21], b"\0" * 30, body + b"\0"))
    code = random.choice((RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2))
    fields = _make_fields(random, choose_topic(random), random.choice(("", "", "TAGS\1red\2")))
    return _make_send("send a batch", code, fields | {"batch": write_flag(random.random() < 0.9)}, body)


def send_half(random: Random) -> Step:
    """A half message."""
    properties = "TRAN_MSG\1true\2PGROUP\1producers\2TAGS\1red\2"
    fields = _make_fields(random, choose_topic(random), properties)
    fields["sysFlag"] = "4"
    return _make_send("send a half message", RequestCode.SEND_MESSAGE_V2, fields, b"half")


def end_transaction(random: Random) -> Step:
    """An end of one of the last messages, which may be no half message."""
    number = random.choice((0, 0, 0, 1, 2))
    fields = {
        "topic": choose_topic(random),
        "producerGroup": random.choice(("producers", "producers", "strangers")),
        "tranStateTableOffset": f"⟨place {number}⟩",
        "commitLogOffset": random.choice((f"⟨physical {number}⟩", f"⟨physical {number}⟩", "-1")),
        "commitOrRollback": random.choice(("8", "8", "12", "5")),
        "fromTransactionCheck": write_flag(random.random() < 0.2),
        "msgId": "AB12",
        "transactionId": "AB12",
    }
    return Step("end a transaction", RequestCode.END_TRANSACTION, fields)


def send_back(random: Random) -> Step:
    """A message that a consumer gives back."""
    fields = {
        "offset": random.choice(("⟨physical 0⟩", "⟨physical 1⟩", "⟨physical 4⟩", "-1", "99999999999")),
        "group": choose_group(random),
        "delayLevel": random.choice(("0", "-1", "-1", "3", "5", "99")),
        "originMsgId": "AB12",
        "originTopic": choose_topic(random),
        "unitMode": "false",  # the broker knows no units, for which topics would have a flag
        "maxReconsumeTimes": random.choice(("16", "16", "0", "-1", "1")),
    }
    return Step("send back", RequestCode.CONSUMER_SEND_MSG_BACK, fields)


def recall(random: Random) -> Step:
    """The recall of a delayed message."""
    handle = random.choice(("⟨handle 0⟩", "⟨handle 0⟩", "", "x", "djEg"))
    fields = {"producerGroup": "producers", "topic": choose_topic(random), "recallHandle": handle}
    return Step("recall", RequestCode.RECALL_MESSAGE, fields)


def send_anywhere(random: Random) -> Step:
    """A message to any queue: of a topic with one, as the choice is random."""
    fields = _make_fields(random, f"{OWN}single", random.choice(_PROPERTIES))
    fields |= {"defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": random.choice(("-1", "-7"))}
    return _make_send("send", RequestCode.SEND_MESSAGE_V2, fields, b"anywhere")


def send_to_nowhere(random: Random) -> Step:
    """A message to a topic with an odd name."""
    return _make_send(
        "send", RequestCode.SEND_MESSAGE_V2, _make_fields(random, choose_odd_name(random), ""), b"nowhere"
    )


KINDS = {
    send: 14,
    send_oddly: 6,
    send_batch: 5,
    send_half: 2,
    end_transaction: 2,
    send_back: 4,
    recall: 1,
    send_anywhere: 1,
    send_to_nowhere: 2,
}
