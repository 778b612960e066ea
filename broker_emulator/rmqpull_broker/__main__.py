"""The command ``rmqpull-broker``, or ``python -m rmqpull_broker``."""

from rmqpull_broker.lean import leave_out_numpy


def main() -> None:
    """Runs the command line. Hides NumPy before anything imports pyarrow."""
    leave_out_numpy()
    from rmqpull_broker.cli import main as command_line

    command_line(prog_name="rmqpull-broker")


if __name__ == "__main__":
    main()
