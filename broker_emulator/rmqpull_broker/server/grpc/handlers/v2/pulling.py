"""PullMessage: reads one queue from an offset, and parks when there is no message (rules 3.1 to 3.4).

The response is a stream: a status, the messages, and the offset of the next pull. v2 has no codes for most results:
``core.pulling.answers`` maps them to codes, and the status message is the result's name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.pulling.answers import CLIENT_STATUSES, PullStatus
from rmqpull_broker.core.pulling.checks import begin_pull
from rmqpull_broker.core.pulling.message_pull import Pulled, pull_messages
from rmqpull_broker.core.pulling.request import PullContext, PullRequest, PullSysFlag
from rmqpull_broker.core.state.names import check_group_of_client, check_topic_of_client
from rmqpull_broker.server.grpc.wire.codec import expression_type_from, name_from, pulled_message_to, queue_from
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def pull_message(
    service: Service, request: rpc.PullMessageRequest, caller: Caller
) -> AsyncIterator[rpc.PullMessageResponse]:
    """PullMessage: a pull that finds no message parks once for ``long_polling_timeout``, and then runs once more."""
    caller.require_client_id()
    pull = _pull_from(service, request, caller)
    pulled, message_filter = await _run(service, pull, is_first_run=True)
    if (
        pulled.may_park
        and pull.may_park
        and await service.park([pull.queue], message_filter, pull.suspend_timeout_ms, caller, group=pull.group)
    ):
        pulled, _ = await _run(service, pull, is_first_run=False)
    service.metrics.count_pull(pull.queue.topic, pulled)
    code = CLIENT_STATUSES[pulled.response].v2_code
    yield rpc.PullMessageResponse(status=v2.Status(code=code, message=pulled.status.name))
    for stored in columns.to_rows(pulled.batches):
        yield rpc.PullMessageResponse(message=pulled_message_to(stored, pull.queue))
    yield rpc.PullMessageResponse(next_offset=pulled.next_offset)


def _pull_from(service: Service, request: rpc.PullMessageRequest, caller: Caller) -> PullRequest:
    """The pull that a request describes, which sets no consumer offset. Checks names as Apache's proxy does."""
    timeout_ms = request.long_polling_timeout.ToMilliseconds()
    service.check_polling_time(timeout_ms)
    queue = queue_from(request.message_queue, service.state.broker_names[0])
    group = name_from(request.group)
    check_group_of_client(group)
    check_topic_of_client(queue.topic)
    return PullRequest(
        group,
        queue,
        request.offset,
        request.batch_size,
        PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if timeout_ms > 0 else PullSysFlag.NONE),
        suspend_timeout_ms=timeout_ms,
        subscription=request.filter_expression.expression,
        expression_type=expression_type_from(request.filter_expression),
        remote_address=caller.address,
        channel_id=caller.client_id,
        is_strict=True,
    )


async def _run(service: Service, pull: PullRequest, *, is_first_run: bool) -> tuple[Pulled, MessageFilter]:
    """Runs the pull once. Returns its result and its filter. Raises the refusal of a check that fails."""
    consumers, now_ms, pull_context = service.clients.consumers, service.clock_ms(), PullContext(service.endpoints[0])
    verdict = await service.execute(
        lambda draft: begin_pull(draft, consumers, pull, now_ms, pull_context, is_first_run=is_first_run)
    )
    if verdict.compensation is not None:
        verdict.compensation.apply(consumers)
    if verdict.refusal is not None:
        raise verdict.refusal
    if verdict.reset_offset is not None:
        bounds = service.state.bounds(pull.queue)
        return Pulled(PullStatus.OFFSET_RESET, pull.offset, verdict.reset_offset, bounds), verdict.message_filter
    message_filter = verdict.message_filter
    return pull_messages(service.state, pull.queue, pull.offset, pull.max_msg_nums, message_filter), message_filter
