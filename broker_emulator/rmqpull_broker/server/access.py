"""Which calls are administration, for both protocols, and who may make them.

All other calls are open to everybody: those of producers and consumers, and those that only read. The table in
docs/access.md is made from this module.
"""

from __future__ import annotations

from typing import NamedTuple

from rmqpull_broker.core.admin.admin_peers import LOOPBACK_PEERS, AdminPeers, read_host
from rmqpull_broker.core.errors import Forbidden
from rmqpull_broker.server.addresses import find_host
from rmqpull_proto.remoting.codes import RequestCode

FLAG, VARIABLE = "--admin-from", "RMQPULL_BROKER_ADMIN_FROM"
"""The names of the setting, which a refusal contains."""


class Administration(NamedTuple):
    """Something that administrators do, and the calls for it: requests of remoting, and methods of ``rmqpull.v1``."""

    what: str
    requests: tuple[RequestCode, ...] = ()
    methods: tuple[str, ...] = ()


ADMINISTRATION = (
    Administration(
        "delete a topic with its messages",
        (RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV),
        ("DeleteTopic",),
    ),
    Administration(
        "delete a consumer group with its offsets", (RequestCode.DELETE_SUBSCRIPTIONGROUP,), ("DeleteGroup",)
    ),
    Administration(
        "reset the offsets of a group from outside, or copy those of another one",
        (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RequestCode.CLONE_GROUP_OFFSET),
        ("ResetOffsets",),
    ),
    Administration(
        "change properties of the broker or of the name server",
        (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.SWITCH_TIMER_ENGINE),
    ),
    Administration(
        "delete expired messages at once, and clean",
        (
            RequestCode.DELETE_EXPIRED_COMMITLOG,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.CLEAN_UNUSED_TOPIC,
        ),
        ("ExpireNow",),
    ),
    Administration(
        "revoke a broker's write permission, and restore it",
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER),
    ),
    Administration("delete a value of the name server", (RequestCode.DELETE_KV_CONFIG,)),
    Administration("make a consumer consume a message once more", (RequestCode.CONSUME_MESSAGE_DIRECTLY,)),
    Administration("inject, release and delete faults", (), ("PutFaultRule", "ReleaseFault", "DeleteFaultRules")),
    Administration("advance a manual clock", (), ("AdvanceClock",)),
)
"""Calls that change or delete what exists. The edges refuse them before anything else reads them."""

CHANGES = (
    Administration(
        "change a topic",
        (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST),
        ("PutTopic",),
    ),
    Administration(
        "change a consumer group",
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST),
        ("PutGroup",),
    ),
    Administration("change a value of the name server", (RequestCode.PUT_KV_CONFIG,)),
)
"""Calls by which everybody may create what does not exist. Their handlers refuse a change of what exists."""

_REQUESTS = frozenset(int(code) for one in ADMINISTRATION for code in one.requests)
_METHODS = frozenset(name for one in ADMINISTRATION for name in one.methods)


class Access:
    """Judges the calls of peers by their addresses, ``host:port``."""

    def __init__(self, peers: AdminPeers = LOOPBACK_PEERS) -> None:
        self._peers = peers

    def check_request(self, code: int, address: str) -> None:
        """Raises Forbidden for a request of remoting that is administration, unless the peer may administrate."""
        if code in _REQUESTS and (refusal := self.find_refusal(RequestCode(code).name, address)):
            raise refusal

    def check_method(self, name: str, address: str) -> None:
        """Raises Forbidden for a method of gRPC that is administration, unless the peer may administrate."""
        if name in _METHODS and (refusal := self.find_refusal(name, address)):
            raise refusal

    def find_refusal(self, call: str, address: str, what: str = "") -> Forbidden | None:
        """Returns the error for a peer that may not administrate; None for one that may.

        ``what`` names what the call would change, for a call that everybody may make otherwise.
        """
        host = find_host(address)
        if self._peers.allows(host):
            return None
        is_administration = f"would change {what}, which is administration" if what else "is administration"
        peer = read_host(host)
        value = "ADDRESSES" if peer is None else self._peers.add(str(peer))
        return Forbidden(
            f"{call} {is_administration}: this broker accepts it from {self._peers.describe()}, not from "
            f"{peer or repr(address)}. Start it with {FLAG} {value}, or with {VARIABLE}={value}"
        )
