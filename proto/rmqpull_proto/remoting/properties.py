"""Properties of messages as one text, and the names that are RocketMQ's own (rules 4.8)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_proto.remoting.frames import WireError

NAME_END = "\x01"
"""Ends the name of a property in the text of all properties."""
VALUE_END = "\x02"
"""Ends its value."""
KEY_SEPARATOR = " "
"""Between the keys of a message, in property KEYS."""

BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
CHECK_IMMUNITY_TIME = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CLUSTER = "CLUSTER"
DELAY = "DELAY"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
FIRST_POP_TIME = "1ST_POP_TIME"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
"""The light message queues that a message is in, with commas between them."""
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
"""The offset of the message in each of them."""
INNER_NUM = "INNER_NUM"
KEYS = "KEYS"
LITE_TOPIC = "__LITE_TOPIC"
MSG_REGION = "MSG_REGION"
ORIGIN_GROUP = "ORIGIN_GROUP"
POP_CHECK = "POP_CK"
PRIORITY = "_SYS_MSG_PRIORITY_"
"""The priority of a message: a number from 0 in decimal digits (RIP-80)."""
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
REAL_QUEUE_ID = "REAL_QID"
REAL_TOPIC = "REAL_TOPIC"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
SHARDING_KEY = "__SHARDINGKEY"
"""The message group. The name is not reserved, so users may set it."""
TAGS = "TAGS"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
TIMER_OUT_MS = "TIMER_OUT_MS"
TRACE_CONTEXT = "TRACE_CONTEXT"
TRACE_ON = "TRACE_ON"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_PREPARED = "TRAN_MSG"
UNIQ_KEY = "UNIQ_KEY"
WAIT_STORE_MSG_OK = "WAIT"

RESERVED = frozenset(
    """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY MAX_RECONSUME_TIMES
    CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO
    INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE
    INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS
    TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC
    DLQ_ORIGIN_MESSAGE_ID __CRC32# ORIGIN_GROUP _SYS_MSG_PRIORITY_ __LITE_TOPIC
    """.split()  # noqa: SIM905 (a list literal would be sixty lines)
)
"""The names that clients of 5.5.0 refuse for a user's property (rules 5.11). Those of 5.3.3 lack the last three."""

OWN_BUT_NOT_RESERVED = frozenset(
    """
    CHECK_IMMUNITY_TIME_IN_SECONDS TRANSACTION_CHECK_TIMES __transactionId__ TRACE_CONTEXT __SHARDINGKEY
    INNER_NUM INNER_BASE INNER_MULTI_DISPATCH PROPERTY_FORWARD_QUEUE_ID REDIRECT __RMQ.TRANSIENT.
    __RMQ.TRANSIENT.TOPIC_SYS_FLAG __RMQ.TRANSIENT.GROUP_SYS_FLAG TRANS_OFFSET
    TIMER_ROLL_LABEL
    """.split()  # noqa: SIM905 (as above)
)
"""Other names that RocketMQ writes or reads, up to 5.5.0. gRPC clients get them among the user's (rules 5.11, 5.12.1,
6.2)."""

OWN = RESERVED | OWN_BUT_NOT_RESERVED
"""All names that are not the user's: those of ``MessageConst`` of 5.5.0, which has all of earlier releases."""

NOT_WRITABLE = OWN - {SHARDING_KEY}
"""Names that a writer refuses among a user's properties. The message group may be given as a property, too."""


def encode_properties(properties: Mapping[str, str]) -> str:
    """Returns all properties as one text.

    Properties with an empty name or value are left out, as a reader would not see them. Raises ``WireError`` if a name
    or a value contains one of the two separators.
    """
    found = [(name, value) for name, value in properties.items() if name and value]
    text = "".join([f"{name}{NAME_END}{value}{VALUE_END}" for name, value in found])
    if text.count(NAME_END) != len(found) or text.count(VALUE_END) != len(found):
        name = next(n for n, value in found if any(end in n + value for end in (NAME_END, VALUE_END)))
        raise WireError(f"property {name!r} contains character 1 or 2, which RocketMQ uses as separators")
    return text


def decode_properties(text: str) -> dict[str, str]:
    """Reads properties from one text. Entries without a name, a value or a separator are ignored (rules 4.8)."""
    entries = (entry.partition(NAME_END) for entry in text.split(VALUE_END))
    return {name: value for name, _, value in entries if name and value}
