"""Random pulls."""

from __future__ import annotations

from random import Random

from rmqpull_proto.remoting.codes import RequestCode
from tests.differential.names import choose_group, choose_queue, choose_topic
from tests.differential.steps import Step

_OFFSETS = ("0", "0", "0", "1", "2", "3", "5", "-1", "1000000", "9223372036854775807")
_FILTERS = (
    *((text, "TAG") for text in ("*", "", "red", "red || blue", "||", "  ", "red|blue", "green", "*||red")),
    *((text, "SQL92") for text in ("size > 1", "colour = 'dark'", "TAGS = 'red'", "size >", "", "1 = 1", "a IS NULL")),
    *(("red", kind) for kind in ("tag", "", "XPATH")),
)
_COMMIT, _SUSPEND, _SUBSCRIPTION, _CLASS_FILTER, _LITE = 1, 2, 4, 8, 16


def pull(random: Random) -> Step:
    """A pull that does not wait."""
    bits = (_COMMIT, _SUBSCRIPTION, _CLASS_FILTER, _LITE)
    flag = sum(bit for bit, share in zip(bits, (0.4, 0.75, 0.05, 0.2), strict=True) if random.random() < share)
    fields = {
        "consumerGroup": choose_group(random),
        "topic": choose_topic(random),
        "queueId": choose_queue(random),
        "queueOffset": random.choice(_OFFSETS),
        "maxMsgNums": random.choice(("32", "32", "1", "2", "100", "0", "-1")),
        "sysFlag": str(flag),
        "commitOffset": random.choice(("0", "1", "2", "7", "-1")),
        "suspendTimeoutMillis": random.choice(("0", "15000")),
        "subVersion": random.choice(("0", "0", "1", "5", "99", "1700000000000")),
    }
    subscription, kind = random.choice(_FILTERS) if random.random() < 0.5 else ("*", "TAG")
    fields |= {"subscription": subscription} if random.random() < 0.95 else {}
    fields |= {"expressionType": kind} if random.random() < 0.9 else {}
    fields |= {"maxMsgBytes": random.choice(("1", "262144", "0"))} if random.random() < 0.2 else {}
    lite = random.random() < 0.2
    return Step("pull", RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE, fields)


KINDS = {pull: 26}
