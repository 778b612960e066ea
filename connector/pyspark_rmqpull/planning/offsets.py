"""Where a query stands: for each queue the offset of the next message to read, as one canonical JSON.

Spark keeps this JSON in the checkpoint and compares it as text, so equal positions must be equal texts: keys are
sorted, numbers are plain integers. The form, with what is optional in brackets::

    {"version": 1,
     "offsets": {"flights": {"broker-a": {"0": 12, "1": 7}}},
     ["creationIds": {"flights": "9f0c…"},]
     ["queryId": "51f0…",]
     ["starts": {"flights": {"broker-a": {"0": 10, "1": 7}}}]}

``creationIds`` tells a topic from one that was deleted and created again; ``queryId``, with ``failOnDataLoss=false``,
is the name under which lost rows are reported. ``starts`` holds, in the offset that ends a
micro-batch, where that batch began on queues which the offset before it does not name: all of them in the first batch,
new ones later. Spark keeps no initial offset for Python sources (rules 7.1), so a resolved start is safe
only in there. The offset before the first batch is ``{"version": 1}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

VERSION = 1


@dataclass(frozen=True)
class QueueOffsets:
    """A position of the query over all of its queues."""

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
            form["offsets"] = nested(self.offsets)
        if self.query_id is not None:
            form["queryId"] = self.query_id
        if self.starts:
            form["starts"] = nested(self.starts)
        form["version"] = VERSION
        return form

    @classmethod
    def from_json(cls, form: Any) -> QueueOffsets:
        """Reads what :meth:`to_json` made. Raises OptionError for anything else: the checkpoint is not ours."""
        if not isinstance(form, dict) or not isinstance(form.get("version"), int):
            raise OptionError(f"The checkpoint holds {form!r}, which is no offset of rmqpull. Use another checkpoint.")
        if form["version"] > VERSION:
            raise OptionError(
                f"The checkpoint has offsets of version {form['version']}; this release reads up to version {VERSION}. "
                "Install the release that wrote it, or a later one."
            )
        try:
            offsets, starts = flat(form.get("offsets", {})), flat(form.get("starts", {}))
            return cls(offsets, starts, dict(form.get("creationIds", {})), form.get("queryId"))
        except (TypeError, ValueError, AttributeError) as error:
            raise OptionError(f"The checkpoint holds damaged offsets of rmqpull ({error}): {form!r}.") from None


def nested(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Offsets as topic → broker name → queue id, sorted as RocketMQ sorts queues."""
    form: dict[str, dict[str, dict[str, int]]] = {}
    for queue, offset in sorted(offsets.items()):
        form.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return form


def flat(form: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[MessageQueue, int]:
    """The reverse of :func:`nested`. Raises TypeError, ValueError or AttributeError for another form."""
    return {
        MessageQueue(topic, broker_name, int(queue_id)): int(offset)
        for topic, brokers in form.items()
        for broker_name, queues in brokers.items()
        for queue_id, offset in queues.items()
    }
