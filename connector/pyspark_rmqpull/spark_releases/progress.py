"""The offsets in a query's progress, in the form of each release."""

from __future__ import annotations

import ast
import json
from typing import Any


def parse_offset(offset: Any) -> Any:
    """Parses an offset of a progress: JSON, JSON as a text, or Python's repr of it, as PySpark 4.0 and 4.1 have it.

    Other sources may have any text, which becomes None.
    """
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except (ValueError, RecursionError):
        return _parse_repr(offset)


def _parse_repr(text: str) -> Any:
    # Offsets are mappings. Nothing else is tried, because Python's parser is slow on other texts.
    if not text.startswith("{"):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
