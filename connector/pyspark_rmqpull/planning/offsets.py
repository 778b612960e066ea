"""Source offsets: for each queue the offset of the next message to read, as the JSON that Spark checkpoints.

Spark compares this JSON as text, so equal offsets must be equal texts: keys are sorted, numbers are plain integers.
The form, with optional parts in brackets::

    {"version": 1,
     "offsets": {"flights": {"broker-a": {"0": 12, "1": 7}}},
     ["creationIds": {"flights": "9f0c…"},]
     ["queryId": "51f0…",]
     ["starts": {"flights": {"broker-a": {"0": 10, "1": 7}}}]}

``creationIds`` distinguishes a topic from one that was deleted and created again. ``queryId`` is the name under which
a query with ``failOnDataLoss=false`` reports lost rows. ``starts``, in the offset that ends a micro-batch, says where
that batch starts on queues that the previous offset does not name: all queues in the first batch, new queues later.
Spark keeps no initial offset for Python sources (rules 7.1), so only there is a resolved start safe. The offset before
the first batch is ``{"version": 1}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_rmqpull.planning.micro_batch import INT64_MAX
from rmqpull_client.errors import OptionError
from rmqpull_client.loss import Loss, OnLoss, find_loss
from rmqpull_client.model import MessageQueue, TopicBounds

VERSION = 1
_QUEUE_ID_MAX = (1 << 31) - 1
_NUMBER = re.compile("0|[1-9][0-9]{0,9}")


@dataclass(frozen=True)
class QueueOffsets:
    """The offsets of a query over all of its queues."""

    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    starts: Mapping[MessageQueue, int] = field(default_factory=dict)
    creation_ids: Mapping[str, str] = field(default_factory=dict)
    query_id: str | None = None

    @property
    def is_initial(self) -> bool:
        """Whether no batch has been planned yet."""
        return not self.offsets

    def to_json(self) -> dict[str, Any]:
        """The canonical form, its keys in canonical order."""
        form: dict[str, Any] = {}
        if self.creation_ids:
            form["creationIds"] = dict(sorted(self.creation_ids.items()))
        if self.offsets:
            form["offsets"] = nest_offsets(self.offsets)
        if self.query_id is not None:
            form["queryId"] = self.query_id
        if self.starts:
            form["starts"] = nest_offsets(self.starts)
        form["version"] = VERSION
        return form

    @classmethod
    def from_json(cls, form: Any) -> QueueOffsets:
        """Parses the form that :meth:`to_json` makes. Raises OptionError for anything else."""
        if not isinstance(form, dict) or type(form.get("version")) is not int or form["version"] < 1:
            raise OptionError(f"The checkpoint holds {form!r}, which rmqpull did not write. Use another checkpoint.")
        if form["version"] > VERSION:
            raise OptionError(
                f"The checkpoint has offsets of version {form['version']}; this release reads up to version {VERSION}. "
                "Install the release that wrote it, or a later one."
            )
        try:
            offsets, starts = flatten_offsets(form.get("offsets", {})), flatten_offsets(form.get("starts", {}))
            return cls(offsets, starts, _read_creation_ids(form), _read_query_id(form))
        except (TypeError, ValueError, AttributeError) as error:
            raise OptionError(f"The checkpoint holds damaged offsets of rmqpull ({error}): {form!r}.") from None


def nest_offsets(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Returns offsets by topic, broker name and queue id, sorted as RocketMQ sorts queues."""
    form: dict[str, dict[str, dict[str, int]]] = {}
    for queue, offset in sorted(offsets.items()):
        form.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return form


def flatten_offsets(form: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[MessageQueue, int]:
    """Reverses :func:`nest_offsets`. Raises TypeError, ValueError or AttributeError for another form."""
    return {
        MessageQueue(topic, broker_name, _read_queue_id(queue_id)): _read_offset(offset)
        for topic, brokers in form.items()
        for broker_name, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def _read_queue_id(text: str) -> int:
    if not _NUMBER.fullmatch(text) or (number := int(text)) > _QUEUE_ID_MAX:
        raise ValueError(f"the queue id {text[:40]!r} is not a number from 0 to {_QUEUE_ID_MAX}")
    return number


def _read_offset(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= INT64_MAX:
        raise ValueError(f"the offset {value!r:.40} is not a number from 0 to {INT64_MAX}")
    return value


def _read_creation_ids(form: Mapping[str, Any]) -> dict[str, str]:
    ids = form.get("creationIds", {})
    if not isinstance(ids, dict) or not all(isinstance(each, str) for each in ids.values()):
        raise TypeError("creationIds are not texts by topic")
    return ids.copy()


def _read_query_id(form: Mapping[str, Any]) -> str | None:
    query_id = form.get("queryId")
    if query_id is not None and not isinstance(query_id, str):
        raise TypeError("queryId is not a text")
    return query_id


def find_resume_offsets(
    finished: QueueOffsets, topics: Mapping[str, TopicBounds], ends_seen: Mapping[MessageQueue, int], on_loss: OnLoss
) -> dict[MessageQueue, int]:
    """Returns where to resume the queues that cannot be read from their finished offset (rules 8.3).

    Calls ``on_loss`` for each loss, and skips it if that returns. No message is read twice: only a topic that was
    created again restarts at its min offset; a queue that was truncated resumes at its end; and one that does not
    exist keeps its offset in case it comes back. ``ends_seen`` tells how many messages such a queue still had.
    """
    starts: dict[MessageQueue, int] = {}
    for queue, offset in sorted(finished.offsets.items()):
        topic = topics.get(queue.topic)
        known_end = max(offset, ends_seen.get(queue, offset))
        bounds = topic.queues.get(queue) if topic is not None else None
        if topic is not None and (text := _describe_recreation(queue.topic, topic, finished)):
            resume = "continues with the earliest message of the new topic"
            on_loss(Loss(queue, offset, known_end, text, resume))
            starts[queue] = bounds.min_offset if bounds is not None else 0
        elif bounds is None:
            text = f"Queue {queue} no longer exists: its messages from offset {offset} are lost."
            resume = f"reads the other queues, and keeps offset {offset} in case this one comes back"
            on_loss(Loss(queue, offset, known_end, text, resume))
        elif (loss := find_loss(queue, offset, bounds)) is not None:
            on_loss(loss)
            starts[queue] = bounds.clamp(offset)
    return starts


def _describe_recreation(name: str, topic: TopicBounds, finished: QueueOffsets) -> str | None:
    before = finished.creation_ids.get(name)
    if before is None or topic.creation_id in (None, before):
        return None
    return (
        f"Topic {name} was deleted and created again: its creation id was {before} and is now {topic.creation_id}. "
        "The messages of the old topic that the query had not read are lost."
    )
