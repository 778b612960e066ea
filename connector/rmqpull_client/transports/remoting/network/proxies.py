"""How much a proxy may have in flight, because it throws responses away.

Apache's proxy drops a response, without a word, while its connection has more than 64 KiB unsent
(``AbstractRemotingActivity.writeResponse``, apache/rocketmq issue 8159): a client that takes in responses more slowly
than they come misses some. So what is in flight on one connection must fit below that, and a pull, whose response may
have 256 KiB, goes alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_proto.remoting.codes import RequestCode

CONNECTIONS_MAX = 8
"""The connections of one operation to one proxy."""
ROOM_BYTES = 32 << 10
"""The responses that may be in flight on one connection. Netty wants half of its 64 KiB free to write again."""
SILENCE_S = 5.0
"""After this time without a response, a request is repeated on another connection. The proxy itself waits 3 s."""
_RESPONSE_BYTES: Mapping[int, int] = {
    RequestCode.PULL_MESSAGE: ROOM_BYTES,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: 8 << 10,
    RequestCode.GET_BROKER_CLUSTER_INFO: 8 << 10,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: 8 << 10,
}
_OTHER_BYTES = 512


def count_response_bytes(code: int) -> int:
    """Returns how much room the response to a request needs, at most the whole of a connection."""
    return _RESPONSE_BYTES.get(code, _OTHER_BYTES)
