"""PullMessage: reads one queue from an offset, and waits when nothing is there (rocketmq-semantics 3.1 to 3.4).

The answer is a stream: one status, the messages, and the offset of the next pull. How each result of the store is said
in v2, which has no words for most of them:

    ================================  ===================  =================================
    result                            status code          status message
    ================================  ===================  =================================
    FOUND                             OK                   FOUND
    nothing new, nothing matched      MESSAGE_NOT_FOUND    the result's own name
    offset outside the queue          ILLEGAL_OFFSET       the result's own name
    ================================  ===================  =================================
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from rmqpull_broker.core import columns
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.naming import check_group_name, check_topic_name
from rmqpull_broker.core.pulling import Pulled, PullStatus, pull_messages
from rmqpull_broker.server.codec import filter_from, message_to, name_of, queue_from
from rmqpull_broker.server.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(
    service: Service, request: rpc.PullMessageRequest, caller: Caller
) -> AsyncIterator[rpc.PullMessageResponse]:
    """Pulls; a pull that finds nothing new is held once for ``long_polling_timeout`` and then answered as it is."""
    caller.require_client_id()
    timeout_ms = request.long_polling_timeout.ToMilliseconds()
    service.check_polling_time(timeout_ms)
    queue = await _checked_queue(service, request)
    tag_filter = filter_from(request.filter_expression, service.state.properties)
    pulled = pull_messages(service.state, queue, request.offset, request.batch_size, tag_filter)
    if pulled.waits and timeout_ms > 0:
        await service.hold([queue], tag_filter, timeout_ms, caller)
        pulled = pull_messages(service.state, queue, request.offset, request.batch_size, tag_filter)
    service.metrics.pulled(queue.topic, pulled)
    yield rpc.PullMessageResponse(status=v2.Status(code=_code(pulled), message=pulled.status.name))
    for stored in columns.to_rows(pulled.batches):
        yield rpc.PullMessageResponse(message=message_to(stored, queue))
    yield rpc.PullMessageResponse(next_offset=pulled.next_offset)


async def _checked_queue(service: Service, request: rpc.PullMessageRequest) -> MessageQueue:
    """The checks of rocketmq-semantics 3.1 in their order: the group comes, and is created, before the topic."""
    queue = queue_from(request.message_queue, service.state.broker_names[0])
    group = name_of(request.group)
    check_group_name(group)
    check_topic_name(queue.topic)
    await service.ensure_group(group)
    topic = service.state.topic(queue.topic)
    if not service.state.is_readable(topic, queue):
        raise BadRequest(
            f"queueId[{queue.queue_id}] is illegal, topic:[{topic.name}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] broker:[{queue.broker_name}]"
        )
    return queue


def _code(pulled: Pulled) -> v2.Code:
    if pulled.status is PullStatus.FOUND:
        return v2.Code.OK
    return v2.Code.ILLEGAL_OFFSET if pulled.is_outside else v2.Code.MESSAGE_NOT_FOUND
