"""Random pops, and what follows them. Real brokers keep what is in flight for a while, so the progress is not asked."""

from __future__ import annotations

import base64
import json
from random import Random

from rmqpull_proto.remoting.codes import RequestCode
from tests.differential.names import choose_group, choose_queue, choose_topic, write_flag
from tests.differential.steps import OWN, Step

_FILTERS = (
    *((text, "TAG") for text in ("*", "red", "red || blue", "||", "  ", "green", "*||red")),
    *((text, "SQL92") for text in ("size > 1", "TAGS = 'red'", "size >", "1 = 1")),
    *(("red", kind) for kind in ("tag", "", "XPATH")),
)
_NEVER_DUE = "600000"
_IN_ORDER_GROUP = f"{OWN}ordered"


def _choose_pop_queue(random: Random) -> str:
    return random.choices(("-1", "0", "1", "2", "7", "-5"), (25, 45, 22, 4, 3, 1))[0]


def _choose_group(random: Random) -> str:
    return choose_group(random)


def _make_pop(random: Random, group: str) -> dict[str, str]:
    fields = {
        "consumerGroup": group,
        "topic": choose_topic(random),
        "queueId": _choose_pop_queue(random),
        "maxMsgNums": random.choice(("32", "32", "32", "33", "100")),
        "invisibleTime": _NEVER_DUE,
        "pollTime": "0",
        # A pop that is born now would be late on a busy machine: half a second is enough.
        "bornTime": random.choice(("0", "⟨now 600000⟩", "⟨now 600000⟩", "⟨now 600000⟩", "⟨now -900000⟩")),
        "initMode": random.choice(("0", "0", "1", "1", "7")),
    }
    if fields["queueId"] in ("0", "1"):  # from several queues, a pop would get a random part
        fields["maxMsgNums"] = random.choice(("32", "32", "1", "2", "3", "33", "0", "-1"))
    if random.random() < 0.4:
        fields["exp"], fields["expType"] = random.choice(_FILTERS)
    elif random.random() < 0.5:
        fields |= {"exp": "*", "expType": "TAG"}
    return fields


def pop(random: Random) -> Step:
    """A pop that does not wait."""
    return Step("pop", RequestCode.POP_MESSAGE, _make_pop(random, _choose_group(random)))


def pop_in_order(random: Random) -> Step:
    """A pop in order. Its group does nothing else."""
    fields = _make_pop(random, _IN_ORDER_GROUP) | {"order": "true"}
    if random.random() < 0.6:
        fields["attemptId"] = random.choice(("a1", "a2"))
    return Step("pop in order", RequestCode.POP_MESSAGE, fields)


def _make_receipt(random: Random, number: int) -> dict[str, str]:
    """The place of a message that was popped, and its receipt; sometimes of another one."""
    place = {name: f"⟨{kind} {number}⟩" for name, kind in _PLACE.items()}
    if random.random() < 0.1:
        place |= random.choice(
            (
                {"extraInfo": ""},
                {"extraInfo": "x"},
                {"extraInfo": "0 1 2 3"},
                {"extraInfo": "0 1700000000000 60000 3 0 broker-a 0 0"},
                {"topic": f"{OWN}later"},
                {"queueId": random.choice(("0", "1", "7", "-1"))},
                {"offset": random.choice(("0", "1", "2", "99", "-1"))},
                {"consumerGroup": f"{OWN}others"},
            )
        )
    return place


_PLACE = {
    "consumerGroup": "popgroup",
    "topic": "poptopic",
    "queueId": "popqueue",
    "offset": "popoffset",
    "extraInfo": "receipt",
}


def acknowledge(random: Random) -> Step:
    """An acknowledgement of one of the last messages that were popped."""
    return Step("acknowledge", RequestCode.ACK_MESSAGE, _make_receipt(random, random.randrange(6)))


def acknowledge_many(random: Random) -> Step:
    """Acknowledgements of several messages, of which most were popped."""
    number = random.randrange(4)
    entry = {
        "c": f"⟨popgroup {number}⟩",
        "t": random.choice((f"⟨poptopic {number}⟩", f"⟨poptopic {number}⟩", f"{OWN}nothing")),
        "r": random.choice(("0", "0", "0", "1", "2")),
        "so": f"⟨popstart {number}⟩",
        "q": f"⟨popqueue {number}⟩",
        "rq": f"⟨poprevive {number}⟩",
        "pt": f"⟨poptime {number}⟩",
        "it": int(_NEVER_DUE),
        "b": base64.b64encode(bytes([random.choice((1, 2, 3, 7, 255, 0))])).decode(),
    }
    body = json.dumps({"acks": [entry] * random.choice((1, 1, 1, 2)), "brokerName": "broker-a"}, ensure_ascii=False)
    if random.random() < 0.1:
        body = random.choice(("", "{}", '{"acks":[]}', '{"brokerName":"broker-a"}', "null"))
    return Step("acknowledge many", RequestCode.BATCH_ACK_MESSAGE, {}, body)


def change_invisible_time(random: Random) -> Step:
    """A message is redelivered later than first said."""
    fields = _make_receipt(random, random.randrange(6)) | {"invisibleTime": _NEVER_DUE}
    # With the receipt of a group in order, another group would be told about its progress.
    fields["consumerGroup"] = f"⟨popgroup {fields['offset'][-2:-1]}⟩" if "⟨" in fields["offset"] else _IN_ORDER_GROUP
    return Step("change the invisible time", RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)


def peek(random: Random) -> Step:
    """What a pop would find."""
    fields = {
        "consumerGroup": _choose_group(random),
        "topic": choose_topic(random),
        "queueId": _choose_pop_queue(random),
        "maxMsgNums": "32",
    }
    if fields["queueId"] in ("0", "1"):
        fields["maxMsgNums"] = random.choice(("32", "1", "2", "0", "-1"))
    return Step("peek", RequestCode.PEEK_MESSAGE, fields)


def notify(random: Random) -> Step:
    """Whether there are messages, without a wait."""
    in_order = random.random() < 0.3
    fields = {
        "consumerGroup": _IN_ORDER_GROUP if in_order else _choose_group(random),
        "topic": choose_topic(random),
        "queueId": _choose_pop_queue(random),
        "pollTime": "0",
        "bornTime": "0",
    }
    if in_order:
        fields |= {"order": write_flag(random.random() < 0.8), "attemptId": random.choice(("a1", "a2"))}
    return Step("notify", RequestCode.NOTIFICATION, fields)


def count_waiting(random: Random) -> Step:
    """How many pops wait: none."""
    fields = {"consumerGroup": _choose_group(random), "topic": choose_topic(random), "queueId": choose_queue(random)}
    return Step("count waiting pops", RequestCode.POLLING_INFO, fields)


KINDS = {
    pop: 14,
    pop_in_order: 12,
    acknowledge: 14,
    acknowledge_many: 5,
    change_invisible_time: 6,
    peek: 5,
    notify: 5,
    count_waiting: 1,
}
