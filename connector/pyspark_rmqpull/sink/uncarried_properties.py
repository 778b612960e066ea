"""Properties that the server cannot carry make their rows invalid, or are dropped: option ``invalidProperties``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.property_rules import BrokenRule, PropertyRules, find_uncarried
from rmqpull_proto import columns as wire

_logger = logging.getLogger(__name__)


def find_rows_with_uncarried(
    maps: pa.MapArray, rules: PropertyRules
) -> Iterator[tuple[pa.Array, Callable[[int], str]]]:
    """For each broken rule, which rows have a property that breaks it, and the reason, by the row's index."""
    names, values, rows = wire.list_entries(maps)
    for rule in find_uncarried(names, values, rules, wire.find_names(maps)):
        if pc.any(rule.properties).as_py():
            yield _find_rows(rule, rows, len(maps))


def _find_rows(rule: BrokenRule, rows: pa.Array, row_count: int) -> tuple[pa.Array, Callable[[int], str]]:
    broken = pc.indices_nonzero(rule.properties)
    of_rows = rows.take(broken)
    first_of_row = dict(zip(reversed(of_rows.to_pylist()), reversed(broken.to_pylist()), strict=True))
    numbers = pa.array(range(row_count), of_rows.type)
    return pc.is_in(numbers, value_set=of_rows), lambda row: rule.explain(first_of_row[row])


class DroppedProperties:
    """Drops the properties of one task that the server cannot carry, and counts them."""

    def __init__(self, rules: PropertyRules) -> None:
        self._rules = rules
        self._first_reason = ""
        self.count = 0

    def drop_uncarried(self, maps: pa.MapArray) -> pa.MapArray:
        """Returns maps without these properties."""
        names, values, _ = wire.list_entries(maps)
        is_kept = pa.repeat(True, len(names))
        for rule in find_uncarried(names, values, self._rules):
            first = pc.index(rule.properties, True).as_py()
            if first < 0:
                continue
            self._first_reason = self._first_reason or rule.explain(first)
            is_kept = pc.and_not(is_kept, rule.properties)
        dropped = len(names) - is_kept.true_count
        self.count += dropped
        return wire.keep_entries(maps, is_kept) if dropped else maps

    def log_dropped_count(self) -> None:
        """Logs the number of dropped properties, if there are any, and why the first one was dropped."""
        if self.count:
            _logger.warning("This task dropped %d properties, the first because %s", self.count, self._first_reason)
