"""How much of what is pulled may be under way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flow:
    """``pull_batch_size`` is the number of messages per standard pull."""

    pull_batch_size: int = 32


DEFAULT_FLOW = Flow()
