"""PutFaultRule: orders a fault for the next calls that fit."""

from __future__ import annotations

from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultRule
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.handlers.admin.codec import fault_rule_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_ACTIONS = {rpc.FaultAction.Value(action.name): action for action in FaultAction}


async def answer(service: Service, request: rpc.PutFaultRuleRequest, caller: Caller) -> rpc.PutFaultRuleResponse:
    """Answers when the rule is in force; it is not kept over a restart."""
    rule_id = service.faults.add(_rule_from(request.rule))
    return rpc.PutFaultRuleResponse(status=OK, rule=fault_rule_to(service.faults, service.faults.report(rule_id)))


def _rule_from(rule: rpc.FaultRule) -> FaultRule:
    if rule.action not in _ACTIONS:
        raise BadRequest("a fault rule needs an action: FAIL, DELAY, DROP, HOLD or DISCONNECT")
    code = rule.code or v2.Code.INTERNAL_SERVER_ERROR
    return FaultRule(
        rpc=rule.rpc or "*",
        action=_ACTIONS[rule.action],
        times=rule.times or None,
        topic=rule.topic or None,
        broker_name=rule.broker_name or None,
        queue_id=rule.queue_id if rule.HasField("queue_id") else None,
        client_id=rule.client_id or None,
        code=v2.Code.Name(code) if code in v2.Code.values() else str(code),
        message=rule.message,
        delay_ms=rule.delay_ms,
        after=rule.after,
    )
