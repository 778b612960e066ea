"""Random commands on two brokers: one stores each of them at once, the other keeps several in one draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import product
from typing import Any, NamedTuple

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import PopResult
from rmqpull_broker.core.sending.delays import find_real_queue, make_recall_handle
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.sending.storing import Sent
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from rmqpull_proto import names
from tests.harness.picked_commands import ALIKE, BROKER, HERE, PROPERTIES, READING, Known, Turn


class Outcome(NamedTuple):
    """What a command returned, or why it was refused, and its facts."""

    answer: Any
    facts: list[list[Fact]]


class DraftedStory:
    """Two brokers, what their clients know, and the time.

    ``together`` has not stored the facts of ``draft`` yet, and ``apart`` has.
    """

    def __init__(self) -> None:
        self.apart, self.together = (BrokerState(ConsumeQueues(), [BROKER], PROPERTIES) for _ in range(2))
        self.draft = Draft(self.together)
        self.now_ms: int = 100_000
        self.known = Known()
        self.kinds: set[type[Fact]] = set()
        self._sender = Sender(QueueSelector(), MessageIds(bytes(6), 1), HERE)
        self._answers: list[Any] = []
        for event, number in _BEGIN:
            self.tell(event, number)

    def tell(self, event: str, number: int) -> None:
        """Continues with an event or a command. The number decides what a command picks."""
        turn = Turn(self.known, self.draft, self._sender, self.now_ms, number)
        if event in EVENTS:
            EVENTS[event](self, turn)
            return
        command = {**ALIKE, **READING}[event]
        expected = None
        if event in ALIKE:
            apart = Turn(self.known, Draft(self.apart), deepcopy(self._sender), self.now_ms, number)
            expected = _run(command, apart)
        outcome = _run(command, turn)
        assert expected in (None, outcome), event
        for facts in outcome.facts:
            self.apart.apply(facts)
            self.kinds.update(map(type, facts))
        self._answers.append(outcome.answer)

    def store(self) -> None:
        """Stores what was drafted. Only now clients get their answers, and know receipts and handles."""
        for facts in self.draft.fact_batches:
            self.together.apply(facts)
        self.draft = Draft(self.together)
        for answer in self._answers:
            self._learn(answer)
        self._answers.clear()

    def _learn(self, answer: Any) -> None:
        match answer:
            case DeliveredMessage():
                self.known.delivered.append(answer)
            case (PopResult() as result, str(group)):
                for part in result.parts:
                    receipts = (result.make_receipt(part, offset, 0) for offset in part.offsets)
                    self.known.delivered += (DeliveredMessage(group, part.queue, receipt) for receipt in receipts)
            case [Sent((names.TIMER_TOPIC, *_) as queue, row), *_]:
                topic = find_real_queue(queue, row.message).topic
                self.known.handles.append((topic, make_recall_handle(topic, queue, row.message) or ""))

    def restart(self) -> None:
        """Gives ``apart`` a state that is made of the facts of its snapshot."""
        facts = self.apart.to_facts()
        self.apart = BrokerState(self.apart.store, [BROKER], PROPERTIES)
        self.apart.apply(facts)
        self.kinds.update(map(type, facts))

    def set_clock_back(self, step_ms: int) -> None:
        """Sets the clock back, which the broker notices."""
        self.now_ms -= step_ms
        self.tell("read the clock", 0)

    def wait(self, step_ms: int) -> None:
        """Lets time pass."""
        self.now_ms += step_ms


def _run(command: Callable[[Turn], object], turn: Turn) -> Outcome:
    draft, known = turn.draft, len(turn.draft.fact_batches)
    try:
        answer = command(turn)
    except BrokerError as error:
        draft.drop_command()
        return Outcome((type(error), str(error)), [])
    draft.end_command()
    return Outcome(answer, draft.fact_batches[known:])


EVENTS: Mapping[str, Callable[[DraftedStory, Turn], None]] = {
    "store": lambda story, _: story.store(),
    "restart": lambda story, _: story.restart(),
    "wait": lambda story, turn: story.wait(turn.pick((1_000, 5_000, 60_000))),
    "set the clock back": lambda story, turn: story.set_clock_back(turn.pick((1_000, 10_000))),
}
_BEGIN = [
    *(("put a topic", number) for number in (0, 4)),
    *(("put a group", number) for number in (0, 1)),
    *product(("send", "publish", "send a half message", "send at a time"), range(2)),
    *(
        ("stage", number) for number in (0, 50, 6)
    ),  # two calls of one transaction, one with a delayed row; one of another
    *(("commit stages", 0), ("store", 0), ("store rows of a stage", 0), ("pop", 0), ("pop", 1), ("store", 0)),
    *(("send", 0), ("send", 2), ("store", 0), ("pop in order", 0), ("reset", 1), ("store", 0)),
]
"""What both brokers have when a story begins: at least one of everything."""
