"""Writers of commits: they stage rows in several calls, commit or drop them, and send single messages."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from threading import Event

import pyarrow as pa

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.columns import write_stream
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc
from rmqpull_proto.rpc import MESSAGING, STAGES, Method
from soak.commit_rows import Commit, Ledger, make_bodies
from soak.rpc import Calls
from soak.servers import NotAnswered

TOTALS = (2, 50, 1_000, 10_000, 40_000)
"""Numbers of rows that commits have."""
STAGES_MAX, CALLS_MAX = 4, 3
DROPPED_ONE_IN = 5
COMMITS_BEFORE_MAX = 10
"""A kill within a commit hits one of the next ones."""
LATE_S_MAX = 2.0
"""How long a late writer keeps its stages open, in seconds."""
RETENTION = "retentionBytes"
"""What an error names when retention has dropped a stage."""


class CommitWriter:
    """Commits one transaction after the other. One without a response is written again, the same, after a restart.

    A ``is_late`` writer keeps its stages open for a while, drops some, and numbers nothing: it is a batch write, the
    others are queries.
    """

    def __init__(
        self, writer: int, topics: Sequence[str], ledger: Ledger, committing: Event, dice: random.Random, is_late: bool
    ) -> None:
        self._writer, self._topics, self._ledger = writer, topics, ledger
        self._committing, self._dice, self._is_late = committing, dice, is_late
        self._number = -1
        self._calls: list[list[int]] = []
        self._drops = False
        self._wait_s = 0.0
        self._begin_next()

    def _begin_next(self) -> None:
        dice = self._dice
        self._number += 1
        calls = [dice.randint(1, CALLS_MAX) for _ in range(dice.randint(1, STAGES_MAX))]
        share = max(2, dice.choice(TOTALS) // sum(calls))
        self._calls = [[share] * count for count in calls]
        self._drops = self._is_late and dice.randrange(DROPPED_ONE_IN) == 0
        self._wait_s = dice.uniform(0, LATE_S_MAX)

    @property
    def _commit(self) -> Commit:
        return Commit(self._writer, self._number)

    @property
    def _transaction(self) -> rpc.Transaction:
        if self._is_late:
            return rpc.Transaction(id=f"write {self._writer} {self._number}")
        return rpc.Transaction(id=f"query {self._writer}", batch_id=self._number)

    def run(self, calls: Calls, ended: Event) -> None:
        """Writes until it is told to end, or the broker is gone."""
        while not ended.is_set():
            try:
                self._write(calls, ended)
            except NotAnswered as error:
                if RETENTION not in str(error):
                    return
                self._ledger.drop(self._commit)
            self._begin_next()

    def finish(self, calls: Calls) -> None:
        """Ends the transaction that has no response. Raises NotAnswered."""
        self._write(calls, Event())

    def _write(self, calls: Calls, ended: Event) -> None:
        self._ledger.begin(self._commit, sum(map(sum, self._calls)))
        first = 0
        for stage, counts in enumerate(self._calls):
            # The last call of a stage arrives first.
            for sequence in reversed(range(len(counts))):
                self._stage(calls, stage, sequence, first, counts[sequence])
                first += counts[sequence]
        if self._is_late:
            # Only once: with a wait after each kill its stages would stay open for minutes, and retention would reach
            # them soon after the commit, with all that the readers have not read yet.
            ended.wait(self._wait_s)
            self._wait_s = 0.0
            calls(STAGES.methods["KeepStages"], rpc.KeepStagesRequest(transaction=self._transaction))
        if self._drops:
            calls(STAGES.methods["DropStages"], rpc.DropStagesRequest(transaction=self._transaction))
            self._ledger.drop(self._commit)
            return
        self._committing.set()
        stages = [
            rpc.CommittedStage(stage_id=self._name_stage(stage), call_count=len(counts))
            for stage, counts in enumerate(self._calls)
        ]
        request = rpc.CommitStagesRequest(transaction=self._transaction, stages=stages)
        calls(STAGES.methods["CommitStages"], request)
        self._ledger.acknowledge(self._commit)

    def _stage(self, calls: Calls, stage: int, sequence: int, first: int, count: int) -> None:
        bodies = make_bodies(self._commit, first, count)
        batch = pa.record_batch({"body": bodies})
        cut = count // len(self._topics)
        sizes = [cut] * (len(self._topics) - 1)
        request = rpc.StageColumnsRequest(
            transaction=self._transaction,
            stage_id=self._name_stage(stage),
            sequence=sequence,
            parts=[
                v1.TopicPart(topic=topic, row_count=size)
                for topic, size in zip(self._topics, [*sizes, count - sum(sizes)], strict=True)
            ],
            arrow_ipc=write_stream(batch.schema, [batch]),
        )
        calls(STAGES.methods["StageColumns"], request)

    def _name_stage(self, stage: int) -> str:
        return f"{self._writer}-{self._number}-{stage}"


class SingleSender:
    """Sends single messages, each once: one without a response may be stored or not."""

    def __init__(self, writer: int, topics: Sequence[str], ledger: Ledger) -> None:
        self._writer, self._topics, self._ledger = writer, topics, ledger
        self._number = 0

    def run(self, calls: Calls, ended: Event) -> None:
        """Sends until it is told to end, or the broker is gone."""
        while not ended.is_set():
            commit = Commit(self._writer, self._number)
            self._number += 1
            self._ledger.begin(commit, 1)
            message = v2.Message(
                topic=v2.Resource(name=self._topics[self._number % len(self._topics)]),
                body=make_bodies(commit, 0, 1)[0].as_py(),
            )
            message.system_properties.message_id = f"{commit.writer}-{commit.number}"
            try:
                calls(MESSAGING.methods["SendMessage"], messaging.SendMessageRequest(messages=[message]))
            except NotAnswered:
                return
            self._ledger.acknowledge(commit)


def repeat(method: Method, make_request: Callable[[], object], pause_s: float) -> Callable[[Calls, Event], None]:
    """Returns a function that makes a call again and again until it is told to end, or the broker is gone."""

    def run(calls: Calls, ended: Event) -> None:
        try:
            while not ended.wait(pause_s):
                calls(method, make_request())
        except NotAnswered:
            return

    return run


def wait_for_moment(committing: Event, dice: random.Random) -> str:
    """Waits for the moment of a kill, and returns what it is: within a commit more often than at any time."""
    if dice.randrange(3):
        for _ in range(dice.randint(1, COMMITS_BEFORE_MAX)):
            committing.clear()
            committing.wait(10.0)
        time.sleep(dice.choice((0.0, 0.002, 0.01, 0.03, 0.1)) * dice.random())
        return "in a commit"
    time.sleep(dice.uniform(0.1, 2.0))
    return "at any time"
