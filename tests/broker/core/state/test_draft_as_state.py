"""Facts have two interpretations, that of a draft and that of the state, and both give the same answers.

A draft that has facts and a draft without any, over a state to which the same facts were applied, are asked the same
questions, and must draft the same next command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import Bounds
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import ClockRead, Fact, TopicDeleted
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.stage_facts import StagesEnded
from rmqpull_broker.core.state.stages import Stage
from tests.harness.drafted_story import EVENTS, DraftedStory
from tests.harness.picked_commands import (
    ALIKE,
    GROUPS,
    HALVES,
    QUEUES_IN_PLAY,
    READING,
    STAGES,
    TOPICS_IN_PLAY,
    TRANSACTIONS,
)

NOTHING = [()]
PLACES = list(product(GROUPS, QUEUES_IN_PLAY))
QUESTIONS: Mapping[str, Callable[[DraftedStory], Iterable[tuple[Any, ...]]]] = {
    **dict.fromkeys(("find_topic", "require_topic"), lambda _: [(name,) for name in TOPICS_IN_PLAY]),
    **dict.fromkeys(("find_group", "require_group"), lambda _: [(name,) for name in GROUPS]),
    **dict.fromkeys(("find_reset", "find_consumer_offset", "find_in_order"), lambda _: PLACES),
    **dict.fromkeys(("find_next_offset", "require_queue"), lambda _: [(queue,) for queue in QUEUES_IN_PLAY]),
    # The rows of a stage get their store times when they leave it.
    "find_store_ms": lambda _: [(at, 0) for at in QUEUES_IN_PLAY if not at.topic.startswith(STAGE_PREFIX)],
    "find_store_host": lambda _: [(queue, "usual") for queue in QUEUES_IN_PLAY],
    "list_groups": lambda _: NOTHING,
    "list_consumer_offsets": lambda _: [(name,) for name in GROUPS],
    "is_in_flight": lambda story: {
        (group, queue, receipt.queue_offset, receipt.pop_time_ms) for group, queue, receipt in story.known.delivered
    },
    "find_stage": lambda _: [(stage_id,) for stage_id in STAGES],
    "require_stage": lambda story: [(stage_id,) for stage_id in story.apart.stages.all()],
    "find_dropping_limit": lambda _: [(stage_id,) for stage_id in STAGES],
    **dict.fromkeys(("count_stages", "list_stages", "properties"), lambda _: NOTHING),
    "has_committed": lambda _: [(transaction,) for transaction in TRANSACTIONS],
    "find_newest_commit": lambda _: [(transaction.writer,) for transaction in TRANSACTIONS],
}
"""What both drafts answer alike: the public methods and properties of a draft, and what they are asked about."""


def ask(draft: Draft, question: str, about: tuple[Any, ...]) -> Any:
    asked = getattr(draft, question)
    try:
        return leave_out_topics(asked(*about) if callable(asked) else asked)
    except BrokerError as error:
        return type(error), str(error)


def leave_out_topics(answer: Any) -> Any:
    """Only a commit asks which topics a stage has. After it, a snapshot has those of the calls that are left."""
    match answer:
        case Stage(is_committed=True):
            return replace(answer, topics=frozenset())
        case dict():
            return {name: leave_out_topics(stage) for name, stage in answer.items()}
    return answer


def list_drafted(story: DraftedStory) -> Iterator[Fact]:
    return (fact for facts in story.draft.fact_batches for fact in facts)


def check_waiting(story: DraftedStory) -> None:
    """They are asked about messages that wait in the state. Once a clock was read, these may have other due times."""
    waits_now = {message.stored_at for message in (*story.apart.delayed, *story.apart.halves)}
    for message in (*story.together.delayed, *story.together.halves):
        assert story.draft.is_pending(message) == (message.stored_at in waits_now)
        assert story.draft.has_ended(message.stored_at) == (message.stored_at not in waits_now)


def check_halves(story: DraftedStory) -> None:
    """The half messages of a draft continue those of its state."""
    for msg_id in HALVES:
        stored = [waiting.stored_at for waiting in story.together.halves.find_by_id(msg_id)]
        drafted = [stored_at for stored_at, _ in story.draft.list_drafted_halves(msg_id)]
        now = [waiting.stored_at for waiting in story.apart.halves.find_by_id(msg_id)]
        assert [stored_at for stored_at in stored + drafted if not story.draft.has_ended(stored_at)] == now


def check_kept_bounds(story: DraftedStory) -> None:
    """What is readable now: no message of a draft is, and retention has not deleted any yet."""
    emptied = {fact.topic for fact in list_drafted(story) if isinstance(fact, TopicDeleted)}
    ended = (fact.stage_ids for fact in list_drafted(story) if isinstance(fact, StagesEnded))
    emptied |= {STAGE_PREFIX + stage_id for stage_ids in ended for stage_id in stage_ids}
    for queue in QUEUES_IN_PLAY:
        bounds = Bounds(0, 0) if queue.topic in emptied else story.together.bounds(queue)
        assert story.draft.find_kept_bounds(queue) == bounds


def check_clock(story: DraftedStory) -> None:
    assert story.draft.reads_clock == any(isinstance(fact, ClockRead) for fact in list_drafted(story))


def check_command(story: DraftedStory) -> None:
    assert not story.draft.stores_messages, "it tells of the command that is drafted, and that has ended"


OF_ITSELF: Mapping[str, Callable[[DraftedStory], None]] = {
    **dict.fromkeys(("is_pending", "has_ended"), check_waiting),
    "list_drafted_halves": check_halves,
    "find_kept_bounds": check_kept_bounds,
    "reads_clock": check_clock,
    "stores_messages": check_command,
}
"""What a draft answers by design in another way than a state that has its facts, and what holds instead."""
NO_QUESTIONS = {
    **dict.fromkeys(("add", "end_command", "drop_command"), "they draft"),
    **dict.fromkeys(("fact_batches", "state"), "the facts, and the state to which they are applied"),
    "room": "what is deleted makes room when it is stored, so a draft has less",
}


def compare(story: DraftedStory) -> None:
    stored = Draft(story.apart)
    for question, list_subjects in QUESTIONS.items():
        for about in list_subjects(story):
            assert ask(story.draft, question, about) == ask(stored, question, about), (question, about)
    for check in {*OF_ITSELF.values()}:
        check(story)


EVERYTHING = [*ALIKE, *READING, *EVENTS]
NUMBERS = 1 << 24
events = st.tuples(st.sampled_from(EVERYTHING), st.integers(0, NUMBERS - 1))


@given(st.lists(st.lists(events, min_size=1, max_size=20), max_size=10))
def test_a_draft_answers_as_the_state_that_has_its_facts(writes: list[list[tuple[str, int]]]) -> None:
    story = DraftedStory()
    for write in writes:
        for event, number in write:
            story.tell(event, number)
            compare(story)
        story.store()


def test_every_public_name_of_a_draft_is_asked_or_says_why_not() -> None:
    public = {name for name in dir(Draft(DraftedStory().together)) if not name.startswith("_")}
    assert public == {*QUESTIONS, *OF_ITSELF, *NO_QUESTIONS}


def test_the_stories_have_facts_of_every_kind() -> None:
    numbers, kinds = Random(1), set[type[Fact]]()
    for _ in range(20):
        story = DraftedStory()
        for event in numbers.sample(EVERYTHING, len(EVERYTHING)):
            story.tell(event, numbers.randrange(NUMBERS))
        kinds |= story.kinds
    assert kinds == set(get_args(Fact))
