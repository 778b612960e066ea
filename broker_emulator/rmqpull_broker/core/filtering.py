"""Filter expressions, evaluated on columns (rocketmq-semantics 3.12)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.errors import IllegalFilterExpression, NotImplementedYet


@dataclass(frozen=True)
class TagFilter:
    """Keeps messages whose tag is one of ``tags``; ``None`` keeps every message.

    Apache's broker compares 32-bit hashes of tags and its clients compare the strings again; comparing the strings here
    gives what a client sees in the end.
    """

    tags: frozenset[str] | None = None

    def mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        """A boolean per row of a batch with a ``tags`` column; None says that every row passes."""
        if self.tags is None:
            return None
        return pc.is_in(batch.column("tags"), value_set=pa.array(sorted(self.tags), pa.string()))

    def matches_any(self, batch: pa.RecordBatch) -> bool:
        """Whether any row passes."""
        mask = self.mask(batch)
        return batch.num_rows > 0 if mask is None else bool(pc.any(mask).as_py())


EVERYTHING = TagFilter()


def parse_filter(expression_type: str, expression: str) -> TagFilter:
    """Builds the filter of a pull; ``expression_type`` is ``TAG`` or ``SQL``.

    Raises IllegalFilterExpression for ``||`` alone, and NotImplementedYet for SQL.
    """
    if expression_type == "SQL":
        raise NotImplementedYet("SQL92 filter expressions are not served yet; use a TAG expression such as 'a || b'")
    return parse_tags(expression)


def parse_tags(expression: str) -> TagFilter:
    """``""`` and ``*`` keep everything, ``a || b`` keeps two tags; there is no other operator.

    Blanks alone keep nothing. Raises IllegalFilterExpression for ``||`` alone (rocketmq-semantics 3.12.1).
    """
    if expression in ("", "*"):
        return EVERYTHING
    parts = expression.split("||")
    if not any(parts):
        raise IllegalFilterExpression("subString split error")
    return TagFilter(frozenset(part.strip() for part in parts if part.strip()))
