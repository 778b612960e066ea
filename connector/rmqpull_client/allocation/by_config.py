"""CONFIG: each consumer has its list of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rmqpull_client.allocation.strategy import Shares, Strategy
from rmqpull_client.model import MessageQueue


@dataclass(frozen=True)
class ByConfig(Strategy):
    """``AllocateMessageQueueByConfig`` (rules 2.4): a list for each consumer, since in RocketMQ each
    process has a strategy of its own."""

    message_queue_list: Mapping[str, Sequence[MessageQueue]]

    def shares(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        return {consumer: list(self.message_queue_list.get(consumer, ())) for consumer in consumers}

    def allocate(
        self, consumer_id: str, queues: Sequence[MessageQueue], consumers: Sequence[str]
    ) -> list[MessageQueue]:
        """The configured list, whatever the arguments are: RocketMQ checks none of them."""
        return list(self.message_queue_list.get(consumer_id, ()))
