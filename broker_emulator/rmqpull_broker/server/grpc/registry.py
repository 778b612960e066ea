"""The table of all RPCs and their handlers.

A method that is not in the table gets UNIMPLEMENTED from gRPC itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_broker.server.grpc.calls import Handler, make_method_handler
from rmqpull_broker.server.grpc.handlers.admin import broker, fault_rules, groups, topics
from rmqpull_broker.server.grpc.handlers.admin import clients as admin_clients
from rmqpull_broker.server.grpc.handlers.admin import offsets as admin_offsets
from rmqpull_broker.server.grpc.handlers.columns import bounds, publishing, server
from rmqpull_broker.server.grpc.handlers.columns import offsets as column_offsets
from rmqpull_broker.server.grpc.handlers.columns import pulling as column_pulling
from rmqpull_broker.server.grpc.handlers.stages import stage_calls as transactions
from rmqpull_broker.server.grpc.handlers.v2 import (
    acknowledging,
    clients,
    offsets,
    pulling,
    receiving,
    routes,
    sending,
    telemetry,
)
from rmqpull_broker.server.runtime.service import Service
from rmqpull_proto import rpc

MESSAGING_HANDLERS: Mapping[str, Handler] = {
    "QueryRoute": routes.query_route,
    "QueryAssignment": routes.query_assignment,
    "Telemetry": telemetry.telemetry,
    "Heartbeat": clients.heartbeat,
    "NotifyClientTermination": clients.notify_client_termination,
    "SendMessage": sending.send_message,
    "EndTransaction": sending.end_transaction,
    "RecallMessage": sending.recall_message,
    "ReceiveMessage": receiving.receive_message,
    "AckMessage": acknowledging.ack_message,
    "ChangeInvisibleDuration": acknowledging.change_invisible_duration,
    "ForwardMessageToDeadLetterQueue": acknowledging.forward_message_to_dead_letter_queue,
    "PullMessage": pulling.pull_message,
    "UpdateOffset": offsets.update_offset,
    "GetOffset": offsets.get_offset,
    "QueryOffset": offsets.query_offset,
}

COLUMN_HANDLERS: Mapping[str, Handler] = {
    "DescribeServer": server.describe_server,
    "PublishColumns": publishing.publish_columns,
    "PullColumns": column_pulling.pull_columns,
    "QueryBounds": bounds.query_bounds,
    "CutRanges": bounds.cut_ranges,
    "CommitOffsets": column_offsets.commit_offsets,
    "ReportRowsLost": column_offsets.report_rows_lost,
    "SendMessageBack": publishing.send_message_back,
}

STAGE_HANDLERS: Mapping[str, Handler] = {
    "StageColumns": transactions.stage_columns,
    "KeepStages": transactions.keep_stages,
    "CommitStages": transactions.commit_stages,
    "DropStages": transactions.drop_stages,
}

ADMIN_HANDLERS: Mapping[str, Handler] = {
    "PutTopic": topics.put_topic,
    "ListTopics": topics.list_topics,
    "DescribeTopic": topics.describe_topic,
    "DeleteTopic": topics.delete_topic,
    "PutGroup": groups.put_group,
    "ListGroups": groups.list_groups,
    "DescribeGroup": groups.describe_group,
    "DeleteGroup": groups.delete_group,
    "ResetOffsets": admin_offsets.reset_offsets,
    "QueryLag": groups.query_lag,
    "ListInFlight": groups.list_in_flight,
    "ListClients": admin_clients.list_clients,
    "ListLocks": admin_clients.list_locks,
    "LockQueues": admin_clients.lock_queues,
    "UnlockQueues": admin_clients.unlock_queues,
    "PutFaultRule": fault_rules.put_fault_rule,
    "ListFaultRules": fault_rules.list_fault_rules,
    "DeleteFaultRules": fault_rules.delete_fault_rules,
    "ReleaseFault": fault_rules.release_fault,
    "GetClock": broker.get_clock,
    "AdvanceClock": broker.advance_clock,
    "ExpireNow": broker.expire_now,
    "GetProperties": broker.get_properties,
}

EXTENSIONS: Mapping[str, tuple[rpc.Service, Mapping[str, Handler]]] = {
    "columns": (rpc.COLUMNS, COLUMN_HANDLERS),
    "admin": (rpc.ADMIN, ADMIN_HANDLERS),
    "stages": (rpc.STAGES, STAGE_HANDLERS),
}
"""The services that can be added to the standard one, by the names that DescribeServer uses."""


def make_generic_handlers(service: Service, shares: CallShares) -> dict[str, grpc.GenericRpcHandler[Any, Any]]:
    """The handlers of the standard service and of the enabled extensions, by full service name."""
    served = [(rpc.MESSAGING, MESSAGING_HANDLERS), *(EXTENSIONS[name] for name in sorted(service.extensions))]
    return {
        described.name: _make_generic_handler(service, described, handlers, shares) for described, handlers in served
    }


def _make_generic_handler(
    service: Service, described: rpc.Service, handlers: Mapping[str, Handler], shares: CallShares
) -> grpc.GenericRpcHandler[Any, Any]:
    methods = {
        name: make_method_handler(service, described.methods[name], handler, shares)
        for name, handler in handlers.items()
    }
    return grpc.method_handlers_generic_handler(described.name, methods)
