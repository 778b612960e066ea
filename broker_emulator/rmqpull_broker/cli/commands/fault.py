"""``rmqpull-broker fault``: injects faults into calls, to test how clients handle them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.cli.frame import connected
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.fault_names import check_code
from rmqpull_client.cli.frame import Group, as_json
from rmqpull_client.cli.output import show, show_json, show_table
from rmqpull_client.cli.values import DURATION
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_COLUMNS = ("id", "rpc", "action", "topic", "brokerName", "queueId", "group", "clientId", "times", "struck", "kept")


@click.group(
    cls=Group,
    examples=["rmqpull-broker fault add PullMessage --fail TOO_MANY_REQUESTS --times 3", "rmqpull-broker fault clear"],
)
def command() -> None:
    """Inject faults into calls: fail, delay, drop, hold or disconnect them."""


def _match_options(function: Any) -> Any:
    """The flags that select calls. A flag that is left out matches all calls."""
    options = (
        click.option("--topic", metavar="TOPIC", help="Calls that name this topic."),
        click.option("--broker", "broker_name", metavar="NAME", help="Calls that name a queue of this broker."),
        click.option(
            "--queue", "queue_id", type=click.IntRange(min=0), metavar="ID", help="Calls that name this queue."
        ),
        click.option("--group", metavar="GROUP", help="Calls that name this consumer group."),
        click.option("--client-id", metavar="ID", help="Calls of this client."),
        click.option("--times", type=click.IntRange(min=1), metavar="N", help="Number of calls [default: 1]."),
        click.option("--always", is_flag=True, help="All calls, until the fault is cleared."),
        click.option(
            "--after",
            is_flag=True,
            help="Inject the fault after the command; only the response is affected.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command(
    examples=[
        "rmqpull-broker fault add PullMessage --fail TOO_MANY_REQUESTS --times 3",
        "rmqpull-broker fault add SendMessage --topic orders --delay 2s --always",
        "rmqpull-broker fault add PullColumns --client-id spark-1 --hold",
        "rmqpull-broker fault add CommitOffsets --disconnect --after",
        "rmqpull-broker fault add AckMessage --group readers --drop --after",
        "rmqpull-broker fault add SEND_MESSAGE_V2 --fail FLUSH_DISK_TIMEOUT",
    ]
)
@click.argument("rpc_name", metavar="[RPC]", default="*")
@_match_options
@click.option("--fail", metavar="CODE", help="Respond with this code of apache.rocketmq.v2 or ResponseCode.")
@click.option("--message", metavar="TEXT", help="Message of the response, with --fail.")
@click.option("--delay", type=DURATION, metavar="DURATION", help="Continue after this time.")
@click.option("--drop", is_flag=True, help="Never respond.")
@click.option("--hold", is_flag=True, help="Continue after 'fault release'.")
@click.option("--disconnect", is_flag=True, help="End the call as if the connection broke.")
@as_json
@connected
def add(
    connection: Connection,
    rpc_name: str,
    times: int | None,
    always: bool,
    fail: str | None,
    delay: int | None,
    drop: bool,
    hold: bool,
    disconnect: bool,
    as_json: bool,
    **matched: Any,
) -> None:
    """Inject a fault into the next calls of RPC (default: of any method) that match all of the flags.

    Give exactly one of --fail, --delay, --drop, --hold and --disconnect.
    """
    actions = {
        rpc.FAIL: fail is not None,
        rpc.DELAY: delay is not None,
        rpc.DROP: drop,
        rpc.HOLD: hold,
        rpc.DISCONNECT: disconnect,
    }
    chosen = [action for action, is_chosen in actions.items() if is_chosen]
    if len(chosen) != 1:
        raise click.UsageError("give exactly one of --fail, --delay, --drop, --hold and --disconnect")
    if always and times is not None:
        raise click.UsageError("give either --times or --always")
    rule = rpc.FaultRule(rpc=rpc_name, action=chosen[0], times=0 if always else times or 1, delay_ms=delay, **matched)
    if fail is not None:
        rule.code_name = _read_code(rpc_name, fail)
    rule = connection.admin("PutFaultRule", rpc.PutFaultRuleRequest(rule=rule)).rule
    if as_json:
        show_json(_row(rule))
    else:
        show_table([_row(rule)], _COLUMNS)


def _read_code(rpc_name: str, text: str) -> str:
    code = text.upper()
    try:
        check_code(rpc_name, code)
    except BadRequest as refusal:
        raise click.BadParameter(str(refusal), param_hint="'--fail'") from None
    return code


@command.command("list", examples=["rmqpull-broker fault list", "rmqpull-broker fault list --json"])
@as_json
@connected
def list_rules(connection: Connection, as_json: bool) -> None:
    """List all faults, oldest first. The first one that matches a call applies."""
    response = connection.admin("ListFaultRules", rpc.ListFaultRulesRequest())
    show([_row(rule) for rule in response.rules], _COLUMNS, as_json=as_json, nothing="no faults")


@command.command(examples=["rmqpull-broker fault clear", "rmqpull-broker fault clear 3 4"])
@click.argument("ids", type=int, nargs=-1)
@connected
def clear(connection: Connection, ids: Sequence[int]) -> None:
    """Delete these faults, or all faults. Calls that they hold or delay continue."""
    response = connection.admin("DeleteFaultRules", rpc.DeleteFaultRulesRequest(ids=ids))
    click.echo(f"cleared {response.deleted} faults", err=True)


@command.command(examples=["rmqpull-broker fault release 3", "rmqpull-broker fault release 3 --calls 1"])
@click.argument("rule_id", metavar="ID", type=int)
@click.option("--calls", type=click.IntRange(min=1), metavar="N", help="Number of calls [default: all].")
@connected
def release(connection: Connection, rule_id: int, calls: int | None) -> None:
    """Resume calls that a fault holds or delays, oldest first."""
    connection.admin("ReleaseFault", rpc.ReleaseFaultRequest(id=rule_id, calls=calls))


def _row(rule: rpc.FaultRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "rpc": rule.rpc,
        "action": _action(rule),
        "topic": rule.topic or None,
        "brokerName": rule.broker_name or None,
        "queueId": rule.queue_id if rule.HasField("queue_id") else None,
        "group": rule.group or None,
        "clientId": rule.client_id or None,
        "times": rule.times or None,
        "struck": rule.struck,
        "kept": rule.kept,
    }


def _action(rule: rpc.FaultRule) -> str:
    words = [rpc.FaultAction.Name(rule.action).lower()]
    if rule.action == rpc.FAIL:
        words.append(rule.code_name)
    if rule.action == rpc.DELAY:
        words.append(f"{rule.delay_ms} ms")
    return " ".join([*words, *["after"] * rule.after])
