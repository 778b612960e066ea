"""The priority of a message: it decides in which queue the message is stored (rules 3.19).

Apache's broker heeds the priority of a single message, and none in a batch. A batch of ``rmqpull.v1`` is like its
messages sent one after another.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.model import Message, TopicType
from rmqpull_broker.core.sending.delays import parse_java
from rmqpull_broker.core.sending.storing import MessageToStore
from rmqpull_proto.remoting.properties import PRIORITY


def read_priority(message: Message) -> int | None:
    """Returns the priority; None without one, or if the text is not a number from 0 to 2,147,483,647."""
    text = message.system_properties.get(PRIORITY)
    number = None if text is None else parse_java(text, 31)
    return number if number is not None and number >= 0 else None


def apply_priority(to_store: MessageToStore, write_queue_nums: int) -> MessageToStore:
    """Returns a single message with the queue of its priority. A message of another type loses its priority.

    Priorities of ``write_queue_nums`` and more go to the last queue. The type of the topic does not matter.
    """
    priority = read_priority(to_store.message)
    if priority is None:
        return to_store
    if to_store.message.topic_type is TopicType.PRIORITY:
        queue_id = max(0, min(priority, write_queue_nums - 1))
        return to_store._replace(queue=to_store.queue._replace(queue_id=queue_id))
    own = {name: value for name, value in to_store.message.system_properties.items() if name != PRIORITY}
    return to_store._replace(message=replace(to_store.message, system_properties=own))


def apply_priorities(indexes: pa.Array, priorities: pa.Array, write_queue_nums: int) -> pa.Array:
    """Returns the index of each row's queue: on the same broker that of its priority, unless that is null.

    The queues of a broker are next to each other, ``write_queue_nums`` of each.
    """
    first_of_broker = pc.multiply(pc.divide(indexes, write_queue_nums), write_queue_nums)
    by_priority = pc.add(first_of_broker, pc.min_element_wise(priorities, write_queue_nums - 1, skip_nulls=False))
    return pc.coalesce(by_priority, indexes).cast(pa.int32())
