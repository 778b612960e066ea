"""AVG and AVG_BY_CIRCLE: to each consumer as many queues as to the others, or one more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rmqpull_client.allocation.strategy import Shares, Strategy
from rmqpull_client.model import MessageQueue


@dataclass(frozen=True)
class Averagely(Strategy):
    """``AllocateMessageQueueAveragely``: contiguous blocks, the first ones longer by one (rules 2.2)."""

    def shares(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        share, rest = divmod(len(queues), len(consumers))
        firsts = [index * share + min(index, rest) for index in range(len(consumers) + 1)]
        return {
            consumer: list(queues[first:after])
            for consumer, first, after in zip(consumers, firsts, firsts[1:], strict=False)
        }


@dataclass(frozen=True)
class AveragelyByCircle(Strategy):
    """``AllocateMessageQueueAveragelyByCircle``: one queue after the other to each in turn (rules 2.3)."""

    def shares(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        return {consumer: list(queues[index :: len(consumers)]) for index, consumer in enumerate(consumers)}
