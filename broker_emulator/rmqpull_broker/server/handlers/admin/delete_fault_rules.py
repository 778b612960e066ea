"""DeleteFaultRules: takes fault rules away, and lets go whom they keep back."""

from __future__ import annotations

from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(
    service: Service, request: rpc.DeleteFaultRulesRequest, caller: Caller
) -> rpc.DeleteFaultRulesResponse:
    """All of the named rules or, when one of them is unknown, none."""
    ids = list(dict.fromkeys(request.ids)) or [report.rule_id for report in service.faults.reports()]
    for rule_id in ids:
        service.faults.report(rule_id)
    for rule_id in ids:
        service.faults.remove(rule_id)
    return rpc.DeleteFaultRulesResponse(status=OK, deleted=len(ids))
