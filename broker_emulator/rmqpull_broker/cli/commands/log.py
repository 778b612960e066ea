"""``rmqpull-broker log``: prints or verifies a data directory while no broker uses it."""

from __future__ import annotations

import dataclasses
import enum
import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, RowsStored
from rmqpull_broker.core.state.stage_facts import ColumnsStaged
from rmqpull_broker.store.inspection import Damage, LoggedRecord, VerifyReport, dump, verify
from rmqpull_broker.store.log.segments import CorruptLog, list_segment_bases, segment_name
from rmqpull_broker.store.vfs import DirectoryInUse, FileSystem, OsFileSystem
from rmqpull_client.cli.frame import Group, as_json
from rmqpull_client.cli.output import Refused, show_fields, show_json, show_table

_DAMAGE_COLUMNS = ("file", "offset", "reason", "effect")
_CUT_OFF = "cut off at the next start"
_FATAL = "prevents the broker's start"
_PASSED = "passed over by a start with the newest snapshot; messages that are only there cannot be read"
_REBUILT = "rebuilt at the next start"

directory_argument = click.argument("directory", metavar="DIR", type=click.Path())


@click.group(cls=Group, examples=["rmqpull-broker log dump ./broker-data", "rmqpull-broker log verify ./broker-data"])
def command() -> None:
    """Print or verify a data directory while no broker uses it."""


@command.command(
    "dump",
    examples=[
        "rmqpull-broker log dump ./broker-data",
        "rmqpull-broker log dump ./broker-data --from-position 1048576 --limit 10 --json",
    ],
)
@directory_argument
@click.option(
    "--from-position", type=click.IntRange(min=0), default=0, metavar="BYTES", help="Start at this log position."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Max number of records.")
@as_json
def dump_log(directory: str, from_position: int, limit: int | None, as_json: bool) -> None:
    """Print the commit log of the data directory DIR, record by record.

    A record is stored as a whole or not at all. Its facts are the changes of the broker's state.
    """
    with _open(directory) as file_system:
        try:
            for number, record in enumerate(dump(file_system, from_position)):
                if number == limit:
                    break
                _show_record(record, as_json)
        except CorruptLog as error:
            raise Refused(str(error)) from None


@command.command("verify", examples=["rmqpull-broker log verify ./broker-data", "rmqpull-broker log verify ./d --json"])
@directory_argument
@as_json
def verify_log(directory: str, as_json: bool) -> None:
    """Verify all checksums of the data directory DIR. Exit with 1 if acknowledged data is damaged.

    An incomplete end of the log was never acknowledged. Damaged queue files and snapshots are rebuilt from the log.
    """
    with _open(directory) as file_system:
        report = verify(file_system)
    damage = [_damage_row(entry, _effect(entry)) for entry in report.log_damage]
    damage += [_damage_row(entry, _REBUILT) for entry in report.derived_damage]
    counts = _counts(report)
    if as_json:
        show_json({**counts, "damage": damage})
    else:
        show_fields(counts)
        if damage:
            click.echo()
            show_table(damage, _DAMAGE_COLUMNS)
        else:
            click.echo("no damage found", err=True)
    if fatal := [entry for entry in report.log_damage if not entry.is_tail]:
        raise Refused(f"{fatal[0].file} is damaged at offset {fatal[0].offset}: {fatal[0].reason}")


@contextmanager
def _open(directory: str) -> Iterator[FileSystem]:
    if not Path(directory).is_dir():
        raise Refused(f"the data directory {directory} does not exist")
    try:
        if not _is_data_directory(directory):  # before the lock, which creates a file
            raise Refused(f"{directory} has no commit log, whose files are named like {segment_name(0)}")
        file_system = _lock(directory)
    except DirectoryInUse as error:
        raise Refused(f"the data directory {error}; stop that broker first") from None
    except OSError as error:
        raise Refused(f"cannot read the data directory {directory}: {error.strerror}") from None
    try:
        yield file_system
    finally:
        file_system.close()


def _is_data_directory(directory: str) -> bool:
    """Whether a broker used the directory; if it stored nothing, only its lock is there."""
    return bool(list_segment_bases(OsFileSystem(directory, is_read_only=True))) or (Path(directory) / "lock").exists()


def _lock(directory: str) -> FileSystem:
    """Opens and locks the directory. One on a read-only file system needs no lock: no broker can start on it."""
    try:
        return OsFileSystem(directory)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return OsFileSystem(directory, is_read_only=True)


def _show_record(record: LoggedRecord, as_json: bool) -> None:
    facts = [{"fact": type(fact).__name__, **_describe_fact(fact)} for fact in record.facts]
    if as_json:
        show_json({"position": record.position, "size": record.size, "facts": facts})
        return
    click.echo(f"{record.position} ({record.size} bytes)" + ("" if facts else " mark"))
    for fact in facts:
        details = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in fact.items() if name != "fact")
        click.echo("  ".join(["", fact["fact"], *details]))


def _describe_fact(fact: Fact) -> dict[str, Any]:
    """The fields of a fact. For messages, only their offsets: peek prints the messages."""
    if isinstance(fact, RowsStored):
        return {"queue": str(fact.queue), "firstOffset": fact.rows[0].queue_offset, "messages": len(fact.rows)}
    if isinstance(fact, ColumnsStored):
        return {"parts": [_to_json(part) for part in fact.parts]}
    if isinstance(fact, ColumnsStaged):
        return {name: value for name, value in _fields(fact).items() if name not in ("batch", "messages")}
    return _fields(fact)


def _fields(value: Any) -> dict[str, Any]:
    return {_camel_case(field.name): _to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _to_json(value: Any) -> Any:
    """Converts a value of a fact for JSON."""
    if isinstance(value, MessageQueue):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {_camel_case(name): _to_json(item) for name, item in value._asdict().items()}
    if isinstance(value, (tuple, list, frozenset)):
        return [_to_json(item) for item in value]
    return value if isinstance(value, (str, int, bool, type(None))) else repr(value)


def _effect(damage: Damage) -> str:
    if damage.is_passed:
        return _PASSED
    return _CUT_OFF if damage.is_tail else _FATAL


def _damage_row(damage: Damage, effect: str) -> dict[str, Any]:
    return {"file": damage.file, "offset": damage.offset, "reason": damage.reason, "effect": effect}


def _counts(report: VerifyReport) -> dict[str, int]:
    return {
        "segments": report.segments,
        "records": report.records,
        "queueFiles": report.queue_files,
        "chunks": report.chunks,
        "snapshots": report.snapshots,
    }
