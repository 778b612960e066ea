"""The largest body of each request, checked before it is parsed, because other requests wait meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX

BODY_BYTES_MAX = 65_536
"""For all requests that are not named here. Java's clients send no body, or the names of a topic and a group."""
HEARTBEAT_BYTES_MAX = 4 << 20
"""5,000 subscriptions with the longest topic names take 1.3 MB."""
SETTINGS_LIST_BYTES_MAX = 1 << 20
"""1,000 groups or topics with all of their settings take 0.5 MB."""
LIST_BYTES_MAX = 4 << 20
"""For queues to lock, and acknowledgements."""

_BOUNDS: Mapping[int, int] = {
    # Messages: ``maxMessageSize`` and the batch limits are checked later.
    RequestCode.SEND_MESSAGE: FRAME_BYTES_MAX,
    RequestCode.SEND_MESSAGE_V2: FRAME_BYTES_MAX,
    RequestCode.SEND_BATCH_MESSAGE: FRAME_BYTES_MAX,
    RequestCode.SEND_REPLY_MESSAGE: FRAME_BYTES_MAX,
    RequestCode.SEND_REPLY_MESSAGE_V2: FRAME_BYTES_MAX,
    RequestCode.HEART_BEAT: HEARTBEAT_BYTES_MAX,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: SETTINGS_LIST_BYTES_MAX,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SETTINGS_LIST_BYTES_MAX,
    RequestCode.LOCK_BATCH_MQ: LIST_BYTES_MAX,
    RequestCode.UNLOCK_BATCH_MQ: LIST_BYTES_MAX,
    RequestCode.BATCH_ACK_MESSAGE: LIST_BYTES_MAX,
}


def find_body_bytes_max(code: int) -> int:
    """Returns the largest body of requests with this code, in bytes."""
    return _BOUNDS.get(code, BODY_BYTES_MAX)
