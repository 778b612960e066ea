"""The sink: writes rows of Spark as messages, at least once, or exactly once where the broker can.

When Spark plans a write, ``schema`` checks the columns, and ``targets`` checks server and topics and decides whether it
is exactly once. Each task (``task``) turns
its rows into messages (``encoding``) and sends or stages them (``deliveries``). The driver commits what the tasks have
staged (``writers``). Readers of at-least-once writes call :func:`without_repeats`.
"""

from pyspark_rmqpull.sink.repeats import without_repeats

__all__ = ["without_repeats"]
