"""``python -m rmqpull_broker`` is the command line."""

from rmqpull_broker.cli import main

main(prog_name="rmqpull-broker")
