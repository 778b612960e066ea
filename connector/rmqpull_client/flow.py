"""How much of what is pulled may be under way, and how long a pull waits."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Flow:
    """What the flow options say, by their names; sizes in MiB."""

    pull_batch_size: int = 32
    pull_threshold_for_queue: int = 1_000
    pull_threshold_size_for_queue: int = 100
    pull_threshold_size_for_topic: int = 64
    long_polling_timeout_ms: int = 20_000

    def parked_pulls_ms(self, wait_ms: int) -> list[int]:
        """How long each of the pulls is parked that together wait so long: no one longer than its time-out."""
        whole, rest = divmod(wait_ms, self.long_polling_timeout_ms)
        return [self.long_polling_timeout_ms] * whole + ([rest] if rest else [])


DEFAULT_FLOW = Flow()
