"""The command ``rmqpull-broker``, also as ``python -m rmqpull_broker``."""

from rmqpull_broker.lean_arrow import leave_out_numpy


def main() -> None:
    """Runs the command line. Nothing that may import pyarrow is imported before NumPy is left out."""
    leave_out_numpy()
    from rmqpull_broker.cli import main as command_line

    command_line(prog_name="rmqpull-broker")


if __name__ == "__main__":
    main()
