"""The names of calls and codes in fault rules, for both protocols."""

from __future__ import annotations

from rmqpull_broker.core.admin.fault_rules import FaultRule
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.near_names import suggest
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode

RPCS = frozenset({*rpc.MESSAGING.methods, *rpc.COLUMNS.methods, *rpc.STAGES.methods})
"""Not the calls of the admin service: whoever creates a rule must be able to delete it."""
CODE_NAMES = frozenset(v2.Code.keys())
_REQUESTS = frozenset(code.name for code in RequestCode)
_RESPONSE_CODES = frozenset(code.name for code in ResponseCode)


def check_names(rule: FaultRule) -> None:
    """Raises BadRequest for a rule with the name of a call or of a code that neither protocol has."""
    check_call(rule.rpc)
    check_code(rule.rpc, rule.code)


def check_call(name: str) -> None:
    """Raises BadRequest for a name that is neither ``*``, nor an RPC, nor a request of the remoting protocol."""
    if name != "*" and name not in RPCS and name not in _REQUESTS:
        raise BadRequest(
            f"unknown RPC {name!r}: use * or one of {', '.join(sorted(RPCS))}, "
            f"or a request of the remoting protocol, such as PULL_MESSAGE{suggest(name, RPCS | _REQUESTS)}"
        )


def check_code(call: str, code: str) -> None:
    """Raises BadRequest for a code with which this call cannot fail.

    Codes of ``apache.rocketmq.v2`` fit all calls: requests of the remoting protocol get the equivalent code. Codes of
    Apache's ``ResponseCode`` fit only such requests, because most have no equivalent for RPCs.
    """
    if code in CODE_NAMES or (code in _RESPONSE_CODES and call in _REQUESTS):
        return
    if code in _RESPONSE_CODES:
        raise BadRequest(
            f"{code} is a code of the remoting protocol, and {call!r} is not one of its requests: name one, such as "
            "SEND_MESSAGE_V2, or use a code of apache.rocketmq.v2, such as TOO_MANY_REQUESTS"
        )
    raise BadRequest(
        f"unknown code {code!r}: use one of apache.rocketmq.v2, such as TOO_MANY_REQUESTS, or for requests of the "
        f"remoting protocol one of ResponseCode, such as SYSTEM_BUSY{suggest(code, CODE_NAMES | _RESPONSE_CODES)}"
    )
