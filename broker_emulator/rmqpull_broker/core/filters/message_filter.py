"""Filter expressions, evaluated on columns (rules 3.12, 6.1)."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.errors import FilterNotSupported, IllegalFilterExpression
from rmqpull_broker.core.messages.message_properties import find_combinations, make_property_column
from rmqpull_broker.core.model import StoredMessage
from rmqpull_proto.filters import sql92_grammar
from rmqpull_proto.filters.java_values import NotComparable, trim
from rmqpull_proto.filters.sql92 import Expression, MalformedExpression, TooComplex, list_properties

TAG = "TAG"
SQL92 = "SQL92"

EXPRESSION_LENGTH_MAX = 32_768
"""The longest expression, in characters. Parsing a longer SQL expression would block other calls for too long."""
COMPILED_EXPRESSIONS_MAX = 100
PROPERTY_VALUES_MAX = 100_000
"""Property values that are looked up at a time, for an expression with many properties."""
PROPERTIES_MAX = 200
COLUMN_COST = 500
"""Looking up the values of a property takes as long as evaluating this many nodes, about 0.1 ms."""
FEW_ROWS = 32


class FilterTooComplex(IllegalFilterExpression):
    """An expression exceeds a limit, so it is unknown whether it is malformed."""

    code = IllegalFilterExpression.code


class MessageFilter(abc.ABC):
    """Decides which messages a pull gets. Filters of equal expressions are equal, so that parked pulls share
    results."""

    @property
    @abc.abstractmethod
    def keeps_everything(self) -> bool:
        """Whether every message passes."""

    @property
    def node_count(self) -> int:
        """How many nodes of an expression are evaluated for a row that differs from all others; 0 without one."""
        return 0

    @abc.abstractmethod
    def mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Returns a boolean for each row of a batch of ``columns.STORED_SCHEMA``; None when every row passes."""

    def evaluate(self, batch: pa.RecordBatch, cost_max: int) -> tuple[pa.Array | None, int]:
        """Returns the mask of the first rows of a batch, at least one, and its cost: nodes that were evaluated, about
        ``cost_max`` at most. A filter without an expression costs nothing, and has the mask of all rows.
        """
        return self.mask(batch), 0

    def matches_any(self, batch: pa.RecordBatch) -> bool:
        """Whether any row passes."""
        mask = self.mask(batch)
        return batch.num_rows > 0 if mask is None else bool(pc.any(mask).as_py())


@dataclass(frozen=True)
class TagFilter(MessageFilter):
    """Passes messages whose tag is one of ``tags``; ``None`` passes every message.

    Apache's broker compares 32-bit hashes of tags, and its clients compare the texts again. Comparing the texts here
    has the same result for clients, with one exception: a pull that finds only tags with the same hash parks or finds
    no match, instead of an empty FOUND.
    """

    tags: frozenset[str] | None = None

    @property
    def keeps_everything(self) -> bool:
        return self.tags is None

    def mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        if self.tags is None:
            return None
        return pc.is_in(batch.column("tags"), value_set=pa.array(sorted(self.tags), pa.string()))

    def matches_any(self, batch: pa.RecordBatch) -> bool:
        # Each arrival is matched with the filter of every parked pull. For the few tags of a send, a set is faster.
        if self.tags is None or batch.num_rows > FEW_ROWS:
            return super().matches_any(batch)
        return not self.tags.isdisjoint(batch.column("tags").to_pylist())

    def matches_any_row(self, rows: Sequence[StoredMessage]) -> bool:
        """Whether any message passes, like :meth:`matches_any`."""
        return self.tags is None or any(row.message.tags in self.tags for row in rows)


@dataclass(frozen=True)
class SqlFilter(MessageFilter):
    """Passes messages for which a SQL92 expression over the properties is TRUE.

    The expression is evaluated once for each distinct combination of its properties in a batch, not for each row.
    ``constants`` are properties that every message has, by name. The constructor raises IllegalFilterExpression.
    """

    expression: str
    constants: tuple[tuple[str, str], ...] = ()
    _node_count: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tree, _ = _compiled(self.expression)
        object.__setattr__(self, "_node_count", tree.node_count)

    @property
    def keeps_everything(self) -> bool:
        return False

    @property
    def node_count(self) -> int:
        return self._node_count

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        masks: list[pa.Array] = []
        while batch.num_rows or not masks:
            mask, _ = self.evaluate(batch, batch.num_rows * self.node_count)
            masks.append(mask)
            batch = batch.slice(len(mask))
        return masks[0] if len(masks) == 1 else pa.concat_arrays(masks)

    def evaluate(self, batch: pa.RecordBatch, cost_max: int) -> tuple[pa.Array, int]:
        tree, named = _compiled(self.expression)
        constants = dict(self.constants)
        names = [name for name in named if name not in constants]
        if not names:
            return pa.repeat(pa.scalar(_is_true(tree, constants)), batch.num_rows), self.node_count
        batch = batch.slice(0, max(1, PROPERTY_VALUES_MAX // len(names)))
        columns = [make_property_column(batch, name) for name in names]
        found = find_combinations(columns)
        rows_max = max(1, cost_max // self.node_count)
        if found.size > rows_max:  # rows_max rows have at most rows_max combinations
            found = find_combinations([column.slice(0, rows_max) for column in columns])
        verdicts = [_is_true(tree, {**constants, **dict(zip(names, row, strict=True))}) for row in found.rows()]
        return pa.array(verdicts, pa.bool_()).take(found.row_combinations), found.size * self.node_count + len(
            names
        ) * COLUMN_COST


def _is_true(tree: Expression, properties: Mapping[str, str | None]) -> bool:
    try:
        return tree.evaluate(properties) is True
    except NotComparable:
        return False


def _compiled(expression: str) -> tuple[Expression, list[str]]:
    """Returns the tree of an expression and its properties. Raises IllegalFilterExpression."""
    _check_length(expression)
    found = _compile(expression)
    if isinstance(found, IllegalFilterExpression):
        raise type(found)(str(found))
    return found


@functools.lru_cache(maxsize=COMPILED_EXPRESSIONS_MAX)
def _compile(expression: str) -> tuple[Expression, list[str]] | IllegalFilterExpression:
    """Caches refusals too, because a client sends a malformed expression again with each pull."""
    try:
        tree = sql92_grammar.parse(expression)
    except TooComplex as refusal:
        return FilterTooComplex(str(refusal))
    except MalformedExpression as refusal:
        return IllegalFilterExpression(str(refusal))
    named = list_properties(tree)
    if len(named) > PROPERTIES_MAX:
        return FilterTooComplex(f"The expression has {len(named)} properties, more than {PROPERTIES_MAX}; split it")
    return tree, named


def forget_compiled() -> None:
    """Forgets the trees of expressions. Filters that exist keep theirs."""
    _compile.cache_clear()


def _check_length(expression: str) -> None:
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise FilterTooComplex(
            f"the filter expression has {len(expression)} characters, more than the max of {EXPRESSION_LENGTH_MAX}"
        )


EVERYTHING = TagFilter()
NOTHING = TagFilter(frozenset())


def parse_filter(expression_type: str, expression: str) -> MessageFilter:
    """Returns the filter of an expression of type ``TAG`` or ``SQL92``, for all protocols except remoting.

    Raises IllegalFilterExpression for a malformed expression and for other types. Apache's broker is less strict: with
    a malformed SQL expression it sends every message.
    """
    if expression_type == TAG:
        return parse_tags(expression)
    if expression_type != SQL92:
        raise IllegalFilterExpression(f"unknown expression type {expression_type!r}: expected {TAG} or {SQL92}")
    return SqlFilter(expression)


def bind_constants(message_filter: MessageFilter, constants: Mapping[str, str]) -> MessageFilter:
    """Returns the filter with these properties added to every message."""
    if isinstance(message_filter, SqlFilter):
        return replace(message_filter, constants=tuple(constants.items()))
    return message_filter


def check_filter_supported(expression_type: str, enable_property_filter: bool) -> None:
    """Raises FilterNotSupported for other types than TAG when ``enablePropertyFilter`` is off (rules 3.1, row 16)."""
    if expression_type != TAG and not enable_property_filter:
        raise FilterNotSupported(f"The broker does not support consumer to filter message by {expression_type}")


def make_pull_filter(
    expression_type: str | None, expression: str | None, enable_property_filter: bool, *, is_strict: bool = False
) -> MessageFilter:
    """Returns the filter of a pull with its own subscription.

    A malformed SQL expression and an unknown type pass every message, or are refused when ``is_strict``. SQL above the
    limits of length and nesting is refused, because it may be well-formed. The type ``""`` has no tags and passes no
    message, unless the expression is ``*`` (rules 6.1). Retry topics need no special case: all of their messages pass
    because clients subscribe to them with ``*``. Raises IllegalFilterExpression for ``||`` alone and for an empty
    expression of another type than TAG, and FilterNotSupported.
    """
    if expression_type is None or expression_type == TAG:
        try:
            return parse_tags(expression or "")
        except IllegalFilterExpression:
            raise _make_parse_error() from None
    if not expression:
        raise _make_parse_error()
    if expression_type == "":
        return EVERYTHING if expression == "*" else NOTHING
    check_filter_supported(expression_type, enable_property_filter)
    try:
        return parse_filter(expression_type, expression)
    except FilterTooComplex:
        if is_strict:
            raise
        raise _make_parse_error() from None
    except IllegalFilterExpression:
        if is_strict:
            raise
        return EVERYTHING


def _make_parse_error() -> IllegalFilterExpression:
    return IllegalFilterExpression("parse the consumer's subscription failed")


def parse_tags(expression: str) -> TagFilter:
    """Returns the filter of a TAG expression: ``""`` and ``*`` pass every message, ``a || b`` passes two tags.

    A blank expression passes no message. Raises IllegalFilterExpression for ``||`` alone (rules 3.12.1), and for an
    expression that is too long to keep while a consumer waits.
    """
    _check_length(expression)
    if expression in ("", "*"):
        return EVERYTHING
    parts = expression.split("||")
    if not any(parts):
        raise IllegalFilterExpression("subString split error")
    return TagFilter(frozenset(filter(None, map(trim, parts))))
