"""The processes of an export, in which pieces are written."""

from __future__ import annotations

import os
import signal
from multiprocessing import parent_process
from threading import Thread


def prepare_process() -> None:
    """Has a process finish its piece when Ctrl-C ends the command, but end at once when the command is killed.

    Otherwise it would write on, to the files that the next run of the command writes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_command, daemon=True).start()


def _end_with_command() -> None:
    command = parent_process()
    assert command is not None
    command.join()
    os._exit(1)
