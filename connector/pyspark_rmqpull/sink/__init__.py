"""The sink: rows of Spark as messages, sent at least once, or exactly once where the broker can.

``options`` and ``schema`` are checked when a write is planned; a ``task`` makes messages of batches (``encoding``) for
``targets`` that can take them, and hands them over (``deliveries``); ``writers`` commit what the tasks name. Readers of
what was sent at least once call :func:`without_repeats`.
"""

from pyspark_rmqpull.sink.repeats import without_repeats

__all__ = ["without_repeats"]
