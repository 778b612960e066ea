"""``rmqpull completion``: completes commands and flags in a shell."""

from __future__ import annotations

from rmqpull_client.cli.completion import make_completion_command

command = make_completion_command("rmqpull")
