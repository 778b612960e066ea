"""How much a proxy may have in flight before it discards responses.

Apache's proxy drops a response, without a word, while its connection has more than 64 KiB unsent
(``AbstractRemotingActivity.writeResponse``, apache/rocketmq issue 8159). So the responses in flight on one connection
must fit below that. The response to a pull may have 256 KiB: it goes alone, until responses of a read show how large
they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_proto.remoting.codes import RequestCode

CONNECTIONS_MAX = 8
"""The connections of one operation to a proxy. A read has as many for each broker behind it."""
ROOM_BYTES = 48 << 10
"""The responses that may be in flight on one connection."""
PULLS_MAX = 16
"""The pulls that may be in flight on one connection, however small their responses are."""
SILENCE_S = 5.0
"""After this time without a response, a request is repeated on another connection. The proxy itself waits 3 s."""
_RESPONSE_BYTES: Mapping[int, int] = {
    RequestCode.PULL_MESSAGE: ROOM_BYTES,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: 8 << 10,
    RequestCode.GET_BROKER_CLUSTER_INFO: 8 << 10,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: 8 << 10,
}
_OTHER_BYTES = 512
_BYTES_OF_BATCH_PER_ID = 60
"""In a batch, each message has 22 bytes and its UNIQ_KEY. The response names each with 33 bytes."""
_ID_BYTES = 33


def count_pulls(largest_bytes: int) -> int:
    """Returns how many pulls may be in flight on one connection. 0: no response has been seen yet."""
    return min(max(1, ROOM_BYTES // largest_bytes), PULLS_MAX) if largest_bytes else 1


def count_response_bytes(code: int, body_bytes: int = 0) -> int:
    """Returns how much room the response to a request with a body needs, at most the whole of a connection."""
    if code == RequestCode.SEND_BATCH_MESSAGE:
        return min(_OTHER_BYTES + body_bytes // _BYTES_OF_BATCH_PER_ID * _ID_BYTES, ROOM_BYTES)
    return _RESPONSE_BYTES.get(code, _OTHER_BYTES)
