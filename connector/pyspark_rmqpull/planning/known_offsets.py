"""The newest offsets of a query, which Spark passes back several times for each micro-batch."""

from __future__ import annotations

from typing import Any

from pyspark_rmqpull.planning.offsets import QueueOffsets

KEPT = 2
"""The start and the end of the newest micro-batch."""


class KnownOffsets:
    """Parses the newest offsets only once: with 1,000 queues and their witnesses that takes milliseconds."""

    def __init__(self) -> None:
        self._newest: list[tuple[dict[str, Any], QueueOffsets]] = []

    def read(self, form: Any) -> QueueOffsets:
        """See :meth:`QueueOffsets.from_json`. Raises OptionError."""
        # On PySpark 4.0 and 4.1 the form also has a latestOffset, which does not matter here.
        plain = {name: form[name] for name in form if name != "latestOffset"} if isinstance(form, dict) else {}
        for known, offsets in self._newest:
            if known == plain:
                return offsets
        return self._keep(plain, QueueOffsets.from_json(form))

    def write(self, offsets: QueueOffsets) -> dict[str, Any]:
        """See :meth:`QueueOffsets.to_json`. Callers must not change the returned form."""
        form = offsets.to_json()
        self._keep(form, offsets)
        return form

    def _keep(self, form: dict[str, Any], offsets: QueueOffsets) -> QueueOffsets:
        self._newest = [(form, offsets), *self._newest][:KEPT]
        return offsets
