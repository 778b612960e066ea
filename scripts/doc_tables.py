"""Generates the tables of the pages in ``TABLES`` from the declarations in the code.

usage: python -m scripts.doc_tables           writes them between their markers
       python -m scripts.doc_tables --check   exits 1 if one of them differs
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pyspark_rmqpull.options.declaration import Option
from pyspark_rmqpull.options.sink import SINK_OPTIONS
from pyspark_rmqpull.options.source import OPTIONS
from pyspark_rmqpull.schema import ROW_SCHEMA
from pyspark_rmqpull.sink.schema import ACCEPTED
from rmqpull_broker.cli import COMMANDS
from rmqpull_broker.cli.aliases import ALIASES
from rmqpull_broker.config import SETTINGS
from rmqpull_broker.core.properties import list_declared
from rmqpull_broker.server.access import ADMINISTRATION, CHANGES, Administration
from rmqpull_broker.server.grpc.registry import ADMIN_HANDLERS, COLUMN_HANDLERS, MESSAGING_HANDLERS, STAGE_HANDLERS
from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_client.cli import COMMANDS as SHELL_COMMANDS
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.rpc import ADMIN, COLUMNS, MESSAGING, STAGES

ROOT = Path(__file__).parents[1]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def source_options() -> str:
    """Returns the options of the source."""
    return options_table(OPTIONS)


def sink_options() -> str:
    """Returns the options of the sink, without those of the connection."""
    return options_table(SINK_OPTIONS)


def options_table(options: Iterable[Option]) -> str:
    """Returns options with their defaults, units and meanings."""
    rows = [
        (
            f"`{option.name}`",
            option.default or "-",
            option.unit,
            f"{option.doc} Only in a {option.only.value}." if option.only else option.doc,
        )
        for option in options
    ]
    return table(("option", "default", "unit", "meaning"), rows)


def row_columns() -> str:
    """Returns the columns of the source's row."""
    spelled = [f"`{field.name}` {field.dataType.simpleString().upper()}" for field in ROW_SCHEMA.fields]
    return ", ".join(spelled) + "."


def sink_columns() -> str:
    """Returns the columns that the sink takes."""
    spelled = [
        f"`{name}` {' or '.join(kind.simpleString().upper() for kind in kinds)}" for name, kinds in ACCEPTED.items()
    ]
    return ", ".join(spelled) + "."


def broker_flags() -> str:
    """Returns the flags of ``rmqpull-broker serve``."""
    rows = [
        (f"`{f'--{setting.name} {setting.form}'.strip()}`", setting.default or "-", setting.doc) for setting in SETTINGS
    ]
    return table(("flag", "default", "meaning"), rows)


def broker_properties() -> str:
    """Returns the broker properties that ``--property`` sets, and says which defaults are not Apache's."""
    rows = [
        (
            f"`{entry.name}`",
            str(entry.default).lower() if isinstance(entry.default, bool) else str(entry.default),
            entry.unit or "-",
            f"{entry.doc} ({entry.deviation}.)" if entry.deviation else entry.doc,
        )
        for entry in sorted(list_declared(), key=lambda entry: entry.name)
    ]
    return table(("property", "default", "unit", "meaning"), rows)


def commands() -> str:
    """Returns the commands of ``rmqpull-broker``, with their names in mqadmin."""
    rows = [
        (
            f"`{name}`",
            summary,
            ", ".join(f"`{alias}`" for alias, called in ALIASES.items() if called.command.split()[0] == name) or "-",
        )
        for name, summary in COMMANDS.items()
    ]
    return table(("command", "what it does", "mqadmin's names"), rows)


def shell_commands() -> str:
    """Returns the commands of ``rmqpull``."""
    return table(("command", "what it does"), [(f"`{name}`", summary) for name, summary in SHELL_COMMANDS.items()])


def administration() -> str:
    """Returns what needs the right to administrate, with the calls of both protocols."""
    return calls_table(ADMINISTRATION)


def changes() -> str:
    """Returns what needs that right only if it would change something that exists."""
    return calls_table(CHANGES)


def calls_table(listed: Iterable[Administration]) -> str:
    """Returns what administrators do, with the calls of both protocols."""
    rows = [
        (
            one.what,
            ", ".join(f"`{code.name}` ({code:d})" for code in one.requests) or "-",
            ", ".join(f"`{name}`" for name in one.methods) or "-",
        )
        for one in listed
    ]
    return table(("what", "requests of the remoting protocol", "methods of `rmqpull.v1.AdminService`"), rows)


def open_calls() -> str:
    """Returns the calls that everybody may make."""
    named = {call for one in (*ADMINISTRATION, *CHANGES) for call in (*one.requests, *one.methods)}
    codes = [RequestCode(code) for code in sorted(list_handlers()) if code not in named]
    services = (
        (MESSAGING, MESSAGING_HANDLERS),
        (COLUMNS, COLUMN_HANDLERS),
        (STAGES, STAGE_HANDLERS),
        (ADMIN, ADMIN_HANDLERS),
    )
    rows = [
        ("remoting", ", ".join(f"`{code.name}` ({code:d})" for code in codes)),
        *(
            (f"`{service.name}`", ", ".join(f"`{name}`" for name in handlers if name not in named))
            for service, handlers in services
        ),
    ]
    return table(("protocol or service", "open to everybody"), rows)


def tree() -> str:
    """Returns the folders with code, each with the first sentence of its docstring."""
    lines = []
    for root in TREE:
        for package in sorted((ROOT / root).rglob("__init__.py")):
            modules = {module.stem for module in package.parent.rglob("*.py")}
            if all(name.endswith(("_pb2", "_pb2_grpc", "__init__")) for name in modules):
                continue  # generated
            folder = package.parent.relative_to(ROOT / root)
            name = f"{root}/" if folder == Path() else f"{'    ' * len(folder.parts)}{folder.name}/"
            doc = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
            sentence = re.split(r"(?<=[.?])\s", doc, maxsplit=1)[0]
            lines.append((name, re.sub(r":\w+:`|`", "", sentence).replace("\n", " ")))
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(("```text", *(f"{name:{width}}{sentence}" for name, sentence in lines), "```"))


TREE = (
    "connector/pyspark_rmqpull",
    "connector/rmqpull_client",
    "broker_emulator/rmqpull_broker",
    "proto/rmqpull_proto",
    "processes",
    "demo",
    "bench",
    "soak",
)
"""What ``tree`` shows: the four packages, and the programs."""

TABLES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "docs/options.md": {
        "source-options": source_options,
        "row-columns": row_columns,
        "sink-options": sink_options,
        "sink-columns": sink_columns,
    },
    "docs/broker.md": {
        "commands": commands,
    },
    "docs/shell.md": {
        "shell-commands": shell_commands,
    },
    "docs/broker-settings.md": {
        "broker-flags": broker_flags,
        "broker-properties": broker_properties,
    },
    "docs/architecture.md": {"tree": tree},
    "docs/access.md": {
        "administration": administration,
        "changes": changes,
        "open-calls": open_calls,
    },
}


def with_tables(text: str, tables: Mapping[str, Callable[[], str]], name: str) -> str:
    """Returns the text of file ``name`` with new tables between ``<!-- NAME -->`` and ``<!-- /NAME -->``."""
    for marker, make in tables.items():
        between = re.compile(rf"(<!-- {marker} -->\n)(?:.*?\n)?(<!-- /{marker} -->)", re.DOTALL)
        if len(between.findall(text)) != 1:
            raise SystemExit(f"{name} must have the markers of {marker} once")
        made = make()
        text = between.sub(lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text)  # type: ignore[misc]
    return text


def write_or_check(file: Path, tables: Mapping[str, Callable[[], str]]) -> None:
    """Writes the tables of a file. With ``--check``, exits with 1 if they differ."""
    text = file.read_text(encoding="utf-8")
    made = with_tables(text, tables, file.name)
    if "--check" not in sys.argv[1:]:
        file.write_text(made, encoding="utf-8")
    elif made != text:
        sys.exit(f"{file.name}: the tables are not up to date; run: make readme")


if __name__ == "__main__":
    for name, tables in TABLES.items():
        write_or_check(ROOT / name, tables)
