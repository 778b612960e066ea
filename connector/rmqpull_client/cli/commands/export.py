"""``rmqpull export``: writes a topic, or a span of time of it, to files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqpull_client.cli.bounds import check_filter, query_queues
from rmqpull_client.cli.commands.peek import filter_options, make_filter, span_options
from rmqpull_client.cli.completing import topic_argument
from rmqpull_client.cli.durable_files import UNFINISHED, write_file
from rmqpull_client.cli.file_locks import InUse, lock_folder
from rmqpull_client.cli.frame import OnceCommand, as_json
from rmqpull_client.cli.output import Refused, count_progress, describe_count, show_json
from rmqpull_client.cli.servers import connected_patiently

if TYPE_CHECKING:
    from rmqpull_client.cli.exports.plan import Plan
    from rmqpull_client.connection import Connection
    from rmqpull_client.transports.port import BrokerClient

PROCESSES_DEFAULT, PROCESSES_MAX = 2, 64


@click.command(
    cls=OnceCommand,
    examples=[
        "rmqpull export orders ./orders",
        "rmqpull export orders ./january --since 2013-01-01 --until 2013-02-01 --format jsonl",
        "rmqpull export orders ./bodies --columns body,keys --processes 4",
    ],
)
@topic_argument
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "jsonl"]),
    default="parquet",
    show_default=True,
    help="Form of the files: Parquet, or a line of JSON for each message, which 'send' reads.",
)
@span_options
@click.option("--columns", metavar="NAME,...", help="Only these columns, beside topic, brokerName and queueId.")
@filter_options
@click.option(
    "--processes",
    type=click.IntRange(1, PROCESSES_MAX),
    default=PROCESSES_DEFAULT,
    show_default=True,
    metavar="N",
    help="Number of processes that read and write.",
)
@as_json
@connected_patiently
@click.pass_obj
def command(
    connection: Connection,
    /,
    client: BrokerClient,
    topic: str,
    folder: Path,
    file_format: str,
    since: int | None,
    until: int | None,
    columns: str | None,
    processes: int,
    as_json: bool,
    **expressions: Any,
) -> None:
    """Write a topic to files in FOLDER, each with a part of one queue. It ends at the last message of now.

    After an interruption, the same command with the same FOLDER continues, up to the last message of its first start.
    Each message is in one file, and none is repeated.
    """
    # Imported here, because they need Arrow, which the help does not.
    from rmqpull_client.cli.exports.pieces import export_pieces
    from rmqpull_client.cli.exports.plan import Plan, list_queues

    message_filter = make_filter(**expressions)
    names = tuple(columns.split(",")) if columns else ()
    _check_columns(names)
    wanted = Plan(
        servers=connection.endpoints_and_namespace,
        topic=topic,
        format=file_format,
        columns=names,
        expression=message_filter.expression,
        expression_type=message_filter.expression_type,
        since_ms=since,
        until_ms=until,
        queues=(),
    )
    is_locked = folder.is_dir() and _lock(folder)
    plan = _read_plan(folder, wanted)
    if plan is None:
        bounds = query_queues(client, topic)
        check_filter(client, bounds, message_filter)
        times = [None if at is None else client.find_offsets_at(dict.fromkeys(bounds, at)) for at in (since, until)]
        plan = _begin(folder, replace(wanted, queues=list_queues(bounds, *times)), is_locked=is_locked)
    left = plan.list_left({path.name for path in folder.iterdir()})
    exported, losses = 0, list[str]()
    with _describe_failures(folder), count_progress(plan.row_count, "exporting") as advance:
        advance(plan.row_count - sum(piece.range.size for piece in left))
        for written in export_pieces(connection, plan, left, folder, processes):
            exported += written.message_count
            losses += written.losses
            advance(written.offset_count)
    for loss in losses:
        click.echo(loss, err=True)
    pieces = len(plan.list_pieces())
    if as_json:
        show_json({"topic": topic, "folder": str(folder), "messages": exported, "files": pieces, "lost": len(losses)})
    click.echo(f"exported {describe_count(exported)}; {folder} has {pieces} files, which is all of it", err=True)
    if losses:
        raise Refused("messages were deleted before they were exported")


def _check_columns(names: tuple[str, ...]) -> None:
    from rmqpull_proto.columns import select_pulled

    try:
        select_pulled(names)
    except ValueError as error:
        raise click.UsageError(f"--columns: {error}") from None


def _read_plan(folder: Path, wanted: Plan) -> Plan | None:
    """Returns the plan of an export that was begun in the folder. Raises Refused when it is another one."""
    from rmqpull_client.cli.exports.plan import PLAN_FILE, BadPlan, decode_plan

    try:
        plan = decode_plan((folder / PLAN_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"cannot read {folder / PLAN_FILE}: {error.strerror}") from None
    except BadPlan as error:
        raise Refused(f"cannot continue the export in {folder}: {PLAN_FILE} cannot be used: {error}") from None
    if (difference := plan.find_difference(wanted)) is not None:
        raise Refused(f"{folder} has another export, with {difference}; use another folder")
    return plan


def _begin(folder: Path, plan: Plan, *, is_locked: bool) -> Plan:
    from rmqpull_client.cli.exports.plan import PLAN_FILE, encode_plan

    try:
        if not is_locked:
            folder.mkdir(parents=True, exist_ok=True)
            _lock(folder)
        # A command that was killed before it had a plan leaves the beginning of one.
        if found := next((path for path in folder.iterdir() if path.name != PLAN_FILE + UNFINISHED), None):
            raise Refused(f"{folder} has other files, such as {found.name}; use an empty folder")
        write_file(folder / PLAN_FILE, encode_plan(plan))
    except OSError as error:
        raise Refused(f"cannot write to {folder}: {error.strerror}") from None
    return plan


def _lock(folder: Path) -> bool:
    """Has the lock of the folder until the command ends. Raises Refused."""
    try:
        click.get_current_context().with_resource(lock_folder(folder))
        return True
    except OSError as error:
        raise Refused(f"cannot read {folder}: {error.strerror}") from None
    except InUse:
        raise Refused(f"another export writes to {folder} now; wait for its end, or use another folder") from None


@contextmanager
def _describe_failures(folder: Path) -> Iterator[None]:
    """Says how an export that cannot go on is continued."""
    try:
        yield
    except OSError as error:
        raise Refused(f"cannot write to {folder}: {error.strerror}; run the command again to continue") from None
    except KeyboardInterrupt:
        raise Refused(f"interrupted; run the command again to continue in {folder}") from None
