"""The tables of the README, made from the one declaration of each option, flag and method.

usage: python scripts/readme_tables.py           writes them between their markers
       python scripts/readme_tables.py --check   exits 1 when the README differs
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark_rmqpull.options import OPTIONS
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_broker.config import SETTINGS
from rmqpull_broker.server.registry import COLUMN_HANDLERS, MESSAGING_HANDLERS
from rmqpull_proto.rpc import COLUMNS, MESSAGING

README = Path(__file__).parents[1] / "README.md"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def source_options() -> str:
    """The options of ``spark.readStream``."""
    rows = [
        (f"`{option.name}`", "required" if option.is_required else option.default or "-", option.unit, option.doc)
        for option in OPTIONS
    ]
    return table(("option", "default", "unit", "meaning"), rows)


def row_columns() -> str:
    """The row of the source."""
    spelled = [f"`{field.name}` {field.dataType.simpleString().upper()}" for field in ROW_SCHEMA.fields]
    return ", ".join(spelled) + "."


def broker_flags() -> str:
    """The flags of ``rmqpull-broker serve``."""
    rows = [(f"`--{setting.name} {setting.form}`", setting.default or "-", setting.doc) for setting in SETTINGS]
    return table(("flag", "default", "meaning"), rows)


def methods() -> str:
    """Which methods of which service are served."""
    rows = [
        (
            f"`{service.name}`",
            ", ".join(name for name in service.methods if name in handlers),
            ", ".join(name for name in service.methods if name not in handlers) or "-",
        )
        for service, handlers in ((MESSAGING, MESSAGING_HANDLERS), (COLUMNS, COLUMN_HANDLERS))
    ]
    return table(("service", "served", "answered UNIMPLEMENTED"), rows)


TABLES = {
    "source-options": source_options,
    "row-columns": row_columns,
    "broker-flags": broker_flags,
    "methods": methods,
}


def with_tables(text: str) -> str:
    """The text with every table between ``<!-- NAME -->`` and ``<!-- /NAME -->`` made anew."""
    for name, make in TABLES.items():
        between = re.compile(rf"(<!-- {name} -->\n)(?:.*?\n)?(<!-- /{name} -->)", re.DOTALL)
        if len(between.findall(text)) != 1:
            raise SystemExit(f"{README.name} must have the markers of {name} once")
        made = make()
        text = between.sub(lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    """Writes or checks the README."""
    text = README.read_text(encoding="utf-8")
    made = with_tables(text)
    if "--check" in sys.argv[1:]:
        sys.exit(0 if made == text else "README.md: the tables are not up to date; run: make readme")
    README.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
