"""The command that prints completion scripts, for any program."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from rmqpull_client.cli.frame import OnceCommand


def make_completion_command(program: str) -> click.Command:
    """Returns the command ``completion`` of a program."""
    variable = f"_{program.upper().replace('-', '_')}_COMPLETE"

    @click.command(
        cls=OnceCommand,
        examples=[
            f'eval "$({program} completion bash)"',
            f"{program} completion fish > ~/.config/fish/completions/{program}.fish",
        ],
    )
    @click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
    @click.pass_context
    def command(ctx: click.Context, shell: str) -> None:
        """Print a completion script for your shell. Evaluate it in the shell's start file."""
        kind = get_completion_class(shell)
        assert kind is not None
        # Not source() of the class itself: for bash, that starts a bash to check its version.
        click.echo(ShellComplete.source(kind(ctx.find_root().command, {}, program, variable)))

    return command
