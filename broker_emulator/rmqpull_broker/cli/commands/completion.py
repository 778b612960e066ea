"""``rmqpull-broker completion``: completes commands, flags, topics and groups in a shell."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from rmqpull_broker.cli.frame import OnceCommand

_PROGRAM = "rmqpull-broker"
_VARIABLE = "_RMQPULL_BROKER_COMPLETE"


@click.command(
    cls=OnceCommand,
    examples=[
        'eval "$(rmqpull-broker completion bash)"',
        "rmqpull-broker completion fish > ~/.config/fish/completions/rmqpull-broker.fish",
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script for your shell. Evaluate it in the shell's start file."""
    kind = get_completion_class(shell)
    assert kind is not None
    # Not source() of the class itself: for bash, that starts a bash to check its version.
    click.echo(ShellComplete.source(kind(ctx.find_root().command, {}, _PROGRAM, _VARIABLE)))
