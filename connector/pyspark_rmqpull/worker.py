"""The Python worker in which Spark runs tasks: how its process treats memory."""

from __future__ import annotations

import gc
from functools import cache

from rmqpull_proto.large_messages import use_memory_again


@cache
def settle() -> None:
    """To be called when a task begins; settles the process once.

    Spark's daemon has the garbage collected after each task. Modules make up nearly all that is looked through then,
    a tenth of a second's worth, and never become garbage: they are taken out of it.
    """
    gc.freeze()
    use_memory_again()
