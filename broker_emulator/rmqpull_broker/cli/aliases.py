"""``mqadmin``'s names for what commands here do: what is typed from memory, or stands in an old script, works.

An alias takes the flags that mqadmin's command takes, ignores those that have no meaning here (clusters, addresses of
brokers), and calls a command of ours, whose ``--endpoints``, ``--timeout`` and ``--json`` it takes too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from rmqpull_broker.cli.commands import OnceCommand


class Rewritten(NamedTuple):
    """A flag of mqadmin's whose value we spell differently."""

    letter: str
    rewrite: Callable[[str], list[str]]


def _switch(letter: str, name: str) -> Rewritten:
    """mqadmin's ``-s true`` as our ``--consume`` and its ``-s false`` as our ``--no-consume``."""

    def rewrite(value: str) -> list[str]:
        if value not in ("true", "false"):
            raise click.BadParameter(f"{value!r} is neither true nor false", param_hint=f"'-{letter}'")
        return [f"--{name}" if value == "true" else f"--no-{name}"]

    return Rewritten(letter, rewrite)


def _message_type(attributes: str) -> list[str]:
    """The one attribute that topics have here, as ``+message.type=FIFO``."""
    found = re.fullmatch(r"\+?message\.type=(\w+)", attributes)
    if found is None:
        raise click.BadParameter(f"{attributes!r} is not served: expected +message.type=TYPE", param_hint="'-a'")
    return ["--type", found[1]]


Part = str | tuple[str, ...] | Rewritten


class Alias(NamedTuple):
    """One name of mqadmin's.

    ``parts`` are pieces of our command's arguments, with mqadmin's flags in braces; a piece is used when all of its
    flags are given, and a tuple of pieces stands for the first of them that can be used. ``ignored`` are flags that
    take a value, ``ignored_marks`` those that take none.
    """

    command: str
    parts: Sequence[Part] = ()
    ignored: str = ""
    ignored_marks: str = ""


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
    "topicList": Alias("topic list", ignored_marks="c"),
    "topicStatus": Alias("topic describe", ("{t}",), ignored="c"),
    "topicRoute": Alias("topic describe", ("{t}",), ignored_marks="l"),
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
    "consumerProgress": Alias("lag", ("--queues", "--group {g}", "--topic {t}"), ignored="c", ignored_marks="s"),
    "consumerStatus": Alias("group describe", ("{g}",), ignored="ib", ignored_marks="s"),
    "consumerConnection": Alias("client list", ("--group {g}",), ignored="b"),
    "producerConnection": Alias("client list", ("--group {g}",), ignored="t"),
    "resetOffsetByTime": Alias(
        "group reset-offset",
        ("{g}", "{t}", ("--queue {b}/{q}", "--queue {q}"), ("--to-offset {o}", "--to-time {s}")),
        ignored="f",
        ignored_marks="c",
    ),
    "skipAccumulatedMessage": Alias("group reset-offset", ("{g}", "{t}", "--to latest"), ignored="f"),
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
    "sendMessage": Alias("send", ("--topic {t}", "--body {p}", "--key {k}", "--tag {c}"), ignored="bim"),
    "clusterList": Alias("broker show", ignored="ic", ignored_marks="m"),
    "brokerStatus": Alias("broker show", ignored="bc"),
    "getBrokerConfig": Alias("broker show", ignored="bc"),
}

_LONG_NAMES = {"t": ["--topic"], "g": ["--groupName", "--group"]}


def alias_command(group: click.Group, name: str) -> click.Command:
    """The command that takes mqadmin's flags and calls ours."""
    alias = ALIASES[name]

    @click.pass_context
    def call(ctx: click.Context, /, **given: Any) -> None:
        target: click.Command = group
        for word in alias.command.split():
            assert isinstance(target, click.Group)
            found = target.get_command(ctx, word)
            assert found is not None, f"alias {name} calls {alias.command}"
            target = found
        arguments = translated(alias, given)
        with target.make_context(alias.command, arguments, parent=ctx.parent) as called:
            target.invoke(called)

    return OnceCommand(
        name,
        callback=call,
        params=_options(alias),
        hidden=True,
        help=f"mqadmin's name for '{alias.command}'.",
        examples=[f"rmqpull-broker {name}"],
    )


def _options(alias: Alias) -> list[click.Parameter]:
    letters = sorted(_letters(alias.parts) | set(alias.ignored))
    own = ("endpoints", "timeout")
    return [
        *(click.Option([f"-{letter}", letter, *_LONG_NAMES.get(letter, [])], metavar="VALUE") for letter in letters),
        *(click.Option([f"-{letter}", letter], is_flag=True) for letter in alias.ignored_marks),
        click.Option(["-n", "--namesrvAddr", "n"], metavar="HOST:PORT", help="Where the broker listens."),
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


def translated(alias: Alias, given: Mapping[str, Any]) -> list[str]:
    """Our command's arguments for mqadmin's flags, by letter; one that was not given is None."""
    arguments: list[str] = []
    for part in alias.parts:
        if isinstance(part, Rewritten):
            value = given.get(part.letter)
            arguments += [] if value is None else part.rewrite(value)
        else:
            pieces = (part,) if isinstance(part, str) else part
            arguments += next((filled for piece in pieces if (filled := _filled(piece, given))), [])
    endpoints = given.get("endpoints") or (given.get("n") or "").partition(";")[0]
    arguments += ["--endpoints", endpoints] if endpoints else []
    arguments += ["--timeout", given["timeout"]] if given.get("timeout") else []
    return arguments + (["--json"] if given.get("json") else [])


def _filled(piece: str, given: Mapping[str, Any]) -> list[str]:
    """The words of a piece with its values, each as one argument whatever it holds; nothing when a value lacks."""
    if any(given.get(letter) is None for letter in re.findall(r"\{(\w)\}", piece)):
        return []
    return [re.sub(r"\{(\w)\}", lambda match: str(given[match[1]]), word) for word in piece.split()]
