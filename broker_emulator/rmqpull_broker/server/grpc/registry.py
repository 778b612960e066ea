"""Which handler serves which RPC.

A method without a handler is answered UNIMPLEMENTED by gRPC itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from rmqpull_broker.server.grpc.entrance import Handler, method_handler
from rmqpull_broker.server.handlers.admin import (
    advance_clock,
    delete_fault_rules,
    delete_group,
    delete_topic,
    describe_group,
    describe_topic,
    expire_now,
    get_clock,
    get_properties,
    list_clients,
    list_fault_rules,
    list_groups,
    list_locks,
    list_topics,
    lock_queues,
    put_fault_rule,
    put_group,
    put_topic,
    query_lag,
    release_fault,
    reset_offsets,
    unlock_queues,
)
from rmqpull_broker.server.handlers.columns import (
    commit_offsets,
    cut_ranges,
    describe_server,
    publish_columns,
    pull_columns,
    query_bounds,
    report_rows_lost,
)
from rmqpull_broker.server.handlers.stages import commit_stages, drop_stages, keep_stages, stage_columns
from rmqpull_broker.server.handlers.v2 import (
    end_transaction,
    get_offset,
    heartbeat,
    notify_client_termination,
    pull_message,
    query_assignment,
    query_offset,
    query_route,
    recall_message,
    send_message,
    send_message_back,
    telemetry,
    update_offset,
)
from rmqpull_broker.server.runtime.service import Service
from rmqpull_proto import rpc

MESSAGING_HANDLERS: Mapping[str, Handler] = {
    "QueryRoute": query_route.answer,
    "QueryAssignment": query_assignment.answer,
    "Telemetry": telemetry.answer,
    "Heartbeat": heartbeat.answer,
    "NotifyClientTermination": notify_client_termination.answer,
    "SendMessage": send_message.answer,
    "EndTransaction": end_transaction.answer,
    "RecallMessage": recall_message.answer,
    "PullMessage": pull_message.answer,
    "UpdateOffset": update_offset.answer,
    "GetOffset": get_offset.answer,
    "QueryOffset": query_offset.answer,
}

COLUMN_HANDLERS: Mapping[str, Handler] = {
    "DescribeServer": describe_server.answer,
    "PublishColumns": publish_columns.answer,
    "PullColumns": pull_columns.answer,
    "QueryBounds": query_bounds.answer,
    "CutRanges": cut_ranges.answer,
    "CommitOffsets": commit_offsets.answer,
    "ReportRowsLost": report_rows_lost.answer,
    "SendMessageBack": send_message_back.answer,
}


STAGE_HANDLERS: Mapping[str, Handler] = {
    "StageColumns": stage_columns.answer,
    "KeepStages": keep_stages.answer,
    "CommitStages": commit_stages.answer,
    "DropStages": drop_stages.answer,
}

ADMIN_HANDLERS: Mapping[str, Handler] = {
    "PutTopic": put_topic.answer,
    "ListTopics": list_topics.answer,
    "DescribeTopic": describe_topic.answer,
    "DeleteTopic": delete_topic.answer,
    "PutGroup": put_group.answer,
    "ListGroups": list_groups.answer,
    "DescribeGroup": describe_group.answer,
    "DeleteGroup": delete_group.answer,
    "ResetOffsets": reset_offsets.answer,
    "QueryLag": query_lag.answer,
    "ListClients": list_clients.answer,
    "ListLocks": list_locks.answer,
    "LockQueues": lock_queues.answer,
    "UnlockQueues": unlock_queues.answer,
    "PutFaultRule": put_fault_rule.answer,
    "ListFaultRules": list_fault_rules.answer,
    "DeleteFaultRules": delete_fault_rules.answer,
    "ReleaseFault": release_fault.answer,
    "GetClock": get_clock.answer,
    "AdvanceClock": advance_clock.answer,
    "ExpireNow": expire_now.answer,
    "GetProperties": get_properties.answer,
}

EXTENSIONS: Mapping[str, tuple[rpc.Service, Mapping[str, Handler]]] = {
    "columns": (rpc.COLUMNS, COLUMN_HANDLERS),
    "admin": (rpc.ADMIN, ADMIN_HANDLERS),
    "stages": (rpc.STAGES, STAGE_HANDLERS),
}
"""What can be served beside the standard service, by the names that DescribeServer tells."""


def generic_handlers(service: Service) -> dict[str, grpc.GenericRpcHandler[Any, Any]]:
    """What a gRPC server registers, by the services' full names: the standard one, and the extensions asked for."""
    served = [(rpc.MESSAGING, MESSAGING_HANDLERS), *(EXTENSIONS[name] for name in sorted(service.extensions))]
    return {described.name: _generic_handler(service, described, handlers) for described, handlers in served}


def _generic_handler(
    service: Service, described: rpc.Service, handlers: Mapping[str, Handler]
) -> grpc.GenericRpcHandler[Any, Any]:
    methods = {name: method_handler(service, described.methods[name], handler) for name, handler in handlers.items()}
    return grpc.method_handlers_generic_handler(described.name, methods)
