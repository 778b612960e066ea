"""PutFaultRule, ListFaultRules, ReleaseFault and DeleteFaultRules."""

from __future__ import annotations

from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultRule
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.grpc.handlers.admin.codec import fault_rule_to
from rmqpull_broker.server.grpc.wire.status import OK, find_code_name
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_ACTIONS = {rpc.FaultAction.Value(action.name): action for action in FaultAction}


async def put_fault_rule(
    service: Service, request: rpc.PutFaultRuleRequest, caller: Caller
) -> rpc.PutFaultRuleResponse:
    """PutFaultRule: injects a fault into the next calls that match. A restart deletes the rule."""
    rule_id = service.faults.add(_rule_from(request.rule))
    return rpc.PutFaultRuleResponse(status=OK, rule=fault_rule_to(service.faults, service.faults.report(rule_id)))


def _rule_from(rule: rpc.FaultRule) -> FaultRule:
    if rule.action not in _ACTIONS:
        raise BadRequest("a fault rule needs an action: FAIL, DELAY, DROP, HOLD or DISCONNECT")
    return FaultRule(
        rpc=rule.rpc or "*",
        action=_ACTIONS[rule.action],
        times=rule.times or None,
        topic=rule.topic or None,
        broker_name=rule.broker_name or None,
        queue_id=rule.queue_id if rule.HasField("queue_id") else None,
        client_id=rule.client_id or None,
        code=rule.code_name or find_code_name(rule.code or v2.Code.INTERNAL_SERVER_ERROR),
        message=rule.message,
        delay_ms=rule.delay_ms,
        after=rule.after,
        group=rule.group or None,
    )


async def list_fault_rules(
    service: Service, request: rpc.ListFaultRulesRequest, caller: Caller
) -> rpc.ListFaultRulesResponse:
    """ListFaultRules: returns all rules until they are deleted, even those that are used up."""
    rules = [fault_rule_to(service.faults, report) for report in service.faults.reports()]
    return rpc.ListFaultRulesResponse(status=OK, rules=rules)


async def release_fault(service: Service, request: rpc.ReleaseFaultRequest, caller: Caller) -> rpc.ReleaseFaultResponse:
    """ReleaseFault: resumes calls that a rule holds or delays. The rule still applies to the next calls."""
    if request.calls < 0:
        raise BadRequest(f"cannot release {request.calls} calls: give a number, or 0 for all")
    service.faults.release(request.id, request.calls or None)
    return rpc.ReleaseFaultResponse(status=OK)


async def delete_fault_rules(
    service: Service, request: rpc.DeleteFaultRulesRequest, caller: Caller
) -> rpc.DeleteFaultRulesResponse:
    """DeleteFaultRules: deletes rules, and resumes the calls that they hold or delay.

    Deletes all of the named rules or, when one of them is unknown, none.
    """
    ids = list(dict.fromkeys(request.ids)) or [report.rule_id for report in service.faults.reports()]
    for rule_id in ids:
        service.faults.report(rule_id)
    for rule_id in ids:
        service.faults.remove(rule_id)
    return rpc.DeleteFaultRulesResponse(status=OK, deleted=len(ids))
