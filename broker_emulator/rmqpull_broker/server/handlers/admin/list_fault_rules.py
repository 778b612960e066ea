"""ListFaultRules: all fault rules with what they have done so far."""

from __future__ import annotations

from rmqpull_broker.server.handlers.admin.codec import fault_rule_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.ListFaultRulesRequest, caller: Caller) -> rpc.ListFaultRulesResponse:
    """Tells rules that are used up as well, until they are deleted."""
    rules = [fault_rule_to(service.faults, report) for report in service.faults.reports()]
    return rpc.ListFaultRulesResponse(status=OK, rules=rules)
