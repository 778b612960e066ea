"""Source offsets: for each queue the offset of the next message to read, as the JSON that Spark checkpoints.

Spark compares this JSON as text, so equal offsets must be equal texts: keys are sorted, numbers are plain integers.
The form, with optional parts in brackets::

    {"version": 1,
     "offsets": {"flights": {"broker-a": {"0": 12, "1": 7}}},
     ["creationIds": {"flights": "9f0c…"},]
     ["latestOffset": {…},]
     ["queryId": "51f0…",]
     ["starts": {"flights": {"broker-a": {"0": 10, "1": 7}}},]
     ["witnesses": {"flights": {"broker-a": "0:11:1772366400000:0c5f1d9ab27e:columns 1:6:…"}}]}

``creationIds`` distinguishes a topic from one that was deleted and created again. ``latestOffset`` has the ends of the
queues when the batch was planned. It is only for the lag, on PySpark 4.0 and 4.1; planning ignores it. ``queryId`` is
the name under which a query with ``failOnDataLoss=false`` reports lost rows. ``starts``, in the offset that ends a
micro-batch, says where that batch starts on queues that the previous offset does not name: all queues in the first
batch, new queues later. Spark keeps no initial offset for Python sources (rules 7.1), so only there is a resolved start
safe. The offset before the first batch is ``{"version": 1}``. ``witnesses`` identifies the last message of each queue
that the query has passed: queue id, offset, store time, digest and protocol (``rmqpull_client.witness``). It is one
text for each broker, because a thousand small values would take milliseconds of each micro-batch. Older releases ignore
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeVar

from pyspark_rmqpull.planning.micro_batch import INT64_MAX
from pyspark_rmqpull.planning.rewritten import NOTHING_REWRITTEN, Rewritten
from rmqpull_client.errors import OptionError
from rmqpull_client.loss import Loss, OnLoss, find_loss
from rmqpull_client.model import Bounds, MessageQueue, TopicBounds
from rmqpull_client.witness import Witness

VERSION = 1
_QUEUE_ID_MAX = (1 << 31) - 1
_NUMBER = re.compile("0|[1-9][0-9]{0,9}")
_WITNESS = re.compile("([0-9]{1,10}):(0|[1-9][0-9]{0,18}):(0|[1-9][0-9]{0,18}):([0-9a-f]{12}):([a-z]{1,20})")
_T = TypeVar("_T")


@dataclass(frozen=True)
class QueueOffsets:
    """The offsets of a query over all of its queues."""

    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    starts: Mapping[MessageQueue, int] = field(default_factory=dict)
    creation_ids: Mapping[str, str] = field(default_factory=dict)
    query_id: str | None = None
    witnesses: Mapping[MessageQueue, Witness] = field(default_factory=dict)

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
        if self.witnesses:
            form["witnesses"] = _write_witnesses(self.witnesses)
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
            return cls(offsets, starts, _read_creation_ids(form), _read_query_id(form), _read_witnesses(form))
        except (TypeError, ValueError, AttributeError) as error:
            raise OptionError(f"The checkpoint holds damaged offsets of rmqpull ({error}): {form!r}.") from None


def add_latest(end: dict[str, Any], latest: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Adds the newest ends of the queues to the end of a batch, if they say more.

    Returns this end, and how many messages the batch leaves unread. ``latest`` has the form of
    ``sources[].latestOffset`` of a progress.
    """
    planned, known = QueueOffsets.from_json(end).offsets, QueueOffsets.from_json(latest).offsets
    unread = sum(max(0, until - planned.get(queue, until)) for queue, until in known.items())
    if not unread and "rowsLost" not in latest:
        return end, 0
    return dict(sorted({**end, "latestOffset": latest}.items())), unread


def nest_offsets(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Returns offsets by topic, broker name and queue id, sorted as RocketMQ sorts queues."""
    return _nest(offsets)


def flatten_offsets(form: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[MessageQueue, int]:
    """Reverses :func:`nest_offsets`. Raises TypeError, ValueError or AttributeError for another form."""
    return {queue: _read_offset(offset) for queue, offset in _flatten(form)}


def _nest(values: Mapping[MessageQueue, _T]) -> dict[str, dict[str, dict[str, _T]]]:
    form: dict[str, dict[str, dict[str, _T]]] = {}
    queues: dict[str, _T] = {}
    last: tuple[str, str] | None = None
    for (topic, broker_name, queue_id), value in sorted(values.items(), key=itemgetter(0)):
        if (topic, broker_name) != last:
            last = topic, broker_name
            queues = form.setdefault(topic, {}).setdefault(broker_name, {})
        queues[str(queue_id)] = value
    return form


def _flatten(form: Mapping[str, Mapping[str, Mapping[str, _T]]]) -> Iterator[tuple[MessageQueue, _T]]:
    for topic, brokers in form.items():
        for broker_name, queues in brokers.items():
            for queue_id, value in queues.items():
                yield MessageQueue(topic, broker_name, _read_queue_id(queue_id)), value


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
        raise TypeError("creationIds are not strings by topic")
    return ids.copy()


def _read_query_id(form: Mapping[str, Any]) -> str | None:
    query_id = form.get("queryId")
    if query_id is not None and not isinstance(query_id, str):
        raise TypeError("queryId is not a string")
    return query_id


def _read_witnesses(form: Mapping[str, Any]) -> dict[MessageQueue, Witness]:
    witnesses: dict[MessageQueue, Witness] = {}
    for topic, brokers in form.get("witnesses", {}).items():
        for broker_name, texts in brokers.items():
            found = [_read_witness(text) for text in texts.split(" ")]
            if any(one >= other for (one, _), (other, _) in pairwise(found)):
                raise ValueError(f"the witnesses {texts!r:.80} are not in the order of their queues")
            witnesses |= {MessageQueue(topic, broker_name, queue_id): witness for queue_id, witness in found}
    return witnesses


def _read_witness(text: str) -> tuple[int, Witness]:
    found = _WITNESS.fullmatch(text)
    if found is None:
        raise ValueError(f"the witness {text!r:.80} is not a queue id, an offset, a time, a digest and a protocol")
    queue_id, offset, store_ms, digest, protocol = found.groups()
    return _read_queue_id(queue_id), Witness(_read_offset(int(offset)), _read_offset(int(store_ms)), digest, protocol)


def _write_witnesses(witnesses: Mapping[MessageQueue, Witness]) -> dict[str, dict[str, str]]:
    texts: dict[tuple[str, str], list[str]] = {}
    for (topic, broker_name, queue_id), witness in sorted(witnesses.items(), key=itemgetter(0)):
        offset, store_ms, digest, protocol = witness
        text = f"{queue_id}:{offset}:{store_ms}:{digest}:{protocol}"
        texts.setdefault((topic, broker_name), []).append(text)
    form: dict[str, dict[str, str]] = {}
    for (topic, broker_name), of_broker in texts.items():
        form.setdefault(topic, {})[broker_name] = " ".join(of_broker)
    return form


def find_resume_offsets(
    finished: QueueOffsets,
    topics: Mapping[str, TopicBounds],
    ends_seen: Mapping[MessageQueue, int],
    on_loss: OnLoss,
    history: Rewritten = NOTHING_REWRITTEN,
) -> dict[MessageQueue, int]:
    """Returns where to resume the queues that cannot be read from their finished offset (rules 8.3).

    Calls ``on_loss`` for each loss, and skips it if that returns. A topic that was created again restarts at its min
    offset, if the server reports the new creation. A queue that no longer exists keeps its offset in case it comes
    back, and ``ends_seen`` shows how many messages it still had. A queue whose history was rewritten resumes where
    ``history`` says: only there may messages be read twice.
    """
    moved: dict[MessageQueue, Bounds] = {}
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
        elif queue in history.queues or offset > bounds.max_offset:
            on_loss(history.make_loss(queue, offset, bounds))
            moved[queue] = bounds
        elif (loss := find_loss(queue, offset, bounds)) is not None:
            on_loss(loss)
            starts[queue] = bounds.clamp(offset)
    return starts | history.find_resume_offsets(moved)


def _describe_recreation(name: str, topic: TopicBounds, finished: QueueOffsets) -> str | None:
    before = finished.creation_ids.get(name)
    if before is None or topic.creation_id in (None, before):
        return None
    return (
        f"Topic {name} was deleted and created again: its creation id was {before} and is now {topic.creation_id}. "
        "The messages of the old topic that the query had not read are lost."
    )
