"""The names and flags of ``mqadmin``'s commands, so that old habits and old scripts still work.

An alias accepts the flags of mqadmin's command, ignores those without a meaning here (clusters, broker addresses), and
calls one of our commands. It also accepts ``--endpoints``, ``--timeout`` and ``--json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from rmqpull_client.cli.frame import OnceCommand


class Rewritten(NamedTuple):
    """A flag of mqadmin whose value has another form here."""

    letter: str
    rewrite: Callable[[str], list[str]]


def _switch(letter: str, name: str) -> Rewritten:
    """Turns mqadmin's ``-s true`` into ``--consume``, and ``-s false`` into ``--no-consume``."""

    def rewrite(value: str) -> list[str]:
        if value not in ("true", "false"):
            raise click.BadParameter(f"{value!r} is not true or false", param_hint=f"'-{letter}'")
        return [f"--{name}" if value == "true" else f"--no-{name}"]

    return Rewritten(letter, rewrite)


def _message_type(attributes: str) -> list[str]:
    """Parses ``+message.type=FIFO``, the only attribute of topics here."""
    found = re.fullmatch(r"\+?message\.type=(\w+)", attributes)
    if found is None:
        raise click.BadParameter(f"{attributes!r} is not supported: use +message.type=TYPE", param_hint="'-a'")
    return ["--type", found[1]]


Part = str | tuple[str, ...] | Rewritten


class Alias(NamedTuple):
    """One command of mqadmin.

    ``parts`` are pieces of our command's arguments, with mqadmin's flags in braces. A piece is used when all of its
    flags are given; of a tuple, the first usable piece is used. ``ignored`` has the ignored flags with a value,
    ``ignored_switches`` those without.
    """

    command: str
    parts: Sequence[Part] = ()
    ignored: str = ""
    ignored_switches: str = ""


ALIASES: Mapping[str, Alias] = {
    "updateTopic": Alias(
        "topic update",
        (
            "{t}",
            "--create",
            "--read-queues {r}",
            "--write-queues {w}",
            "--perm {p}",
            _switch("o", "order"),
            Rewritten("a", _message_type),
        ),
        ignored="bcus",
    ),
    "updateTopicPerm": Alias("topic update", ("{t}", "--perm {p}"), ignored="bc"),
    "deleteTopic": Alias("topic delete", ("{t}", "--yes"), ignored="c"),
    "topicList": Alias("topics", ignored_switches="c"),
    "topicStatus": Alias("topic", ("{t}",), ignored="c"),
    "topicRoute": Alias("topic describe", ("{t}",), ignored_switches="l"),
    "updateSubGroup": Alias(
        "group update",
        (
            "{g}",
            "--create",
            _switch("s", "consume"),
            _switch("d", "broadcast"),
            _switch("o", "orderly"),
            _switch("a", "notify"),
            "--retry-queues {q}",
            "--retry-max-times {r}",
        ),
        ignored="bcmiwp",
    ),
    "deleteSubGroup": Alias("group delete", ("{g}", "--yes"), ignored="bcr"),
    "consumerProgress": Alias("lag", ("--queues", "{g}", "--topic {t}"), ignored="c", ignored_switches="s"),
    "consumerStatus": Alias("group describe", ("{g}",), ignored="ib", ignored_switches="s"),
    "consumerConnection": Alias("client list", ("--group {g}",), ignored="b"),
    "producerConnection": Alias("client list", ("--group {g}",), ignored="t"),
    "resetOffsetByTime": Alias(
        "reset",
        ("{g}", "{t}", "--yes", ("--queue {b}/{q}", "--queue {q}"), ("--to-offset {o}", "--to-time {s}")),
        ignored="f",
        ignored_switches="c",
    ),
    "skipAccumulatedMessage": Alias("reset", ("{g}", "{t}", "--yes", "--to latest"), ignored="f"),
    "queryMsgByKey": Alias("peek", ("{t}", "--key {k}", "--newest {m}"), ignored="bec"),
    "queryMsgById": Alias("peek", ("{t}", "--id {i}"), ignored="gduf"),
    "queryMsgByUniqueKey": Alias("peek", ("{t}", "--id {i}"), ignored="gdc"),
    "queryMsgByOffset": Alias(
        "peek", ("{t}", ("--queue {b}/{i}", "--queue {i}"), "--from-offset {o}", "--newest 1"), ignored="f"
    ),
    "printMsg": Alias("peek", ("{t}", "--tag {s}", ("--at-time {b}", "--from-offset 0")), ignored="ced"),
    "consumeMessage": Alias(
        "peek",
        (
            "{t}",
            ("--queue {b}/{i}", "--queue {i}"),
            ("--from-offset {o}", "--at-time {s}", "--from-offset 0"),
            "--newest {c}",
        ),
        "ge",
    ),
    "sendMessage": Alias("send", ("{t}", "--body {p}", "--key {k}", "--tag {c}"), ignored="bim"),
    "clusterList": Alias("broker show", ignored="ic", ignored_switches="m"),
    "brokerStatus": Alias("broker show", ignored="bc"),
    "getBrokerConfig": Alias("broker show", ignored="bc"),
}

_LONG_NAMES = {"t": ["--topic"], "g": ["--groupName", "--group"]}


def alias_command(group: click.Group, name: str) -> click.Command:
    """Makes the command that accepts mqadmin's flags and calls ours."""
    alias = ALIASES[name]

    @click.pass_context
    def call(ctx: click.Context, /, **given: Any) -> None:
        target: click.Command = group
        for word in alias.command.split():
            assert isinstance(target, click.Group)
            found = target.get_command(ctx, word)
            assert found is not None, f"alias {name} calls {alias.command}"
            target = found
        arguments = translate(alias, given)
        with target.make_context(alias.command, arguments, parent=ctx.parent) as called:
            target.invoke(called)

    return OnceCommand(
        name,
        callback=call,
        params=_options(alias),
        hidden=True,
        help=f"mqadmin's name of '{alias.command}'.",
        examples=[f"rmqpull-broker {name}"],
    )


def _options(alias: Alias) -> list[click.Parameter]:
    letters = sorted(_letters(alias.parts) | set(alias.ignored))
    own = ("endpoints", "timeout")
    return [
        *(click.Option([f"-{letter}", letter, *_LONG_NAMES.get(letter, [])], metavar="VALUE") for letter in letters),
        *(click.Option([f"-{letter}", letter], is_flag=True) for letter in alias.ignored_switches),
        click.Option(["-n", "--namesrvAddr", "n"], metavar="HOST:PORT", help="Address of the broker."),
        *(click.Option([f"--{name}", name], metavar="VALUE") for name in own),
        click.Option(["--json", "json"], is_flag=True),
    ]


def _letters(parts: Sequence[Part]) -> set[str]:
    letters = set()
    for part in parts:
        if isinstance(part, Rewritten):
            letters.add(part.letter)
        else:
            letters.update(re.findall(r"\{(\w)\}", part if isinstance(part, str) else " ".join(part)))
    return letters


def translate(alias: Alias, given: Mapping[str, Any]) -> list[str]:
    """Translates mqadmin's flags, by letter (None: not given), into the arguments of our command."""
    arguments: list[str] = []
    for part in alias.parts:
        if isinstance(part, Rewritten):
            value = given.get(part.letter)
            arguments += [] if value is None else part.rewrite(value)
        else:
            pieces = (part,) if isinstance(part, str) else part
            arguments += next((filled for piece in pieces if (filled := _fill(piece, given))), [])
    endpoints = given.get("endpoints") or (given.get("n") or "").partition(";")[0]
    arguments += ["--endpoints", endpoints] if endpoints else []
    arguments += ["--timeout", given["timeout"]] if given.get("timeout") else []
    return arguments + (["--json"] if given.get("json") else [])


def _fill(piece: str, given: Mapping[str, Any]) -> list[str]:
    """Fills a piece with values, each as one argument whatever it contains. Returns nothing when a value is missing."""
    if any(given.get(letter) is None for letter in re.findall(r"\{(\w)\}", piece)):
        return []
    return [re.sub(r"\{(\w)\}", lambda match: str(given[match[1]]), word) for word in piece.split()]
