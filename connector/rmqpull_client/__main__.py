"""The command ``rmqpull``, or ``python -m rmqpull_client``."""

from rmqpull_client.cli import main as command_line


def main() -> None:
    """Runs the command line."""
    command_line(prog_name="rmqpull")


if __name__ == "__main__":
    main()
