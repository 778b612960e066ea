"""Runs a round: steps happen to a broker and a query while producers send. Then the output is judged."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demo import checkpoint as spark_checkpoint
from processes.children import Children
from soak.cluster import Cluster
from soak.judge import Queue, ahead, judge
from soak.ledger import Ledger
from soak.output import Row
from soak.output import rows as output_rows
from soak.plan import APACHE_4, EXACTLY_ONCE, KILLS, Kind, Round, Step
from soak.producers import Producers
from soak.query import Query
from soak.server_choice import make_server
from soak.servers import copy_topics

DRAIN_SECONDS_MAX = 300.0
SLAVE_SECONDS_MAX = 120.0
WRITING_SECONDS_MAX = 30.0
"""How long a query must do without a master that it needs: half of the time limit of a request."""
WAITING_MESSAGES_S = 2.0
SERVED_BY_SLAVE = "micro-batches finished while a master was away"
# What Spark reports if a Python process is gone, and what a fault rule makes the broker respond.
# An EOFException has no text: the state of the error follows at once.
_LOST_PYTHON = re.compile(
    r"\A:\s*SQLSTATE|Python worker|EOFException|SocketException|Broken pipe|Connection reset|terminated|crashed"
)
_ORDERED = re.compile(r"INTERNAL_SERVER_ERROR")


@dataclass
class Result:
    """What a round did, and every difference that it found.

    ``speculative`` is the number of speculative attempts on a cluster, ``speculative_first`` of those that finished
    first.
    """

    kills: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    unacknowledged: int = 0
    rows: int = 0
    repeated: int = 0
    batches: int = 0
    failures: int = 0
    on_cluster: int = 0
    speculative: int = 0
    speculative_first: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


class RoundRun:
    """Runs a round in a folder of its own."""

    def __init__(self, plan: Round, folder: Path, children: Children, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._result = Result()
        self._ledger = Ledger()
        self._topics = [name for name, _ in plan.setting.topics]
        self._server = make_server(folder, plan.setting, children)
        self._server.start()
        self._cluster = Cluster(children, folder) if plan.setting.on_cluster else None
        self._query = Query(children, folder, self._server.options, plan.setting, self._cluster)

    def run(self) -> Result:
        """Runs the round and returns its result."""
        begin = time.monotonic()
        plan = self._plan
        producers = Producers(
            self._server.workloads, plan.setting, f"{plan.seed}/{plan.number}", self._ledger, lambda: self._topics
        )
        producers.start()
        try:
            self._query.start(plan.setting.max_offsets)
            for number, step in enumerate(plan.steps, 1):
                self._ledger.step = number
                time.sleep(step.wait_s)
                self._carry_out(step)
                self._query.look()
        finally:
            producers.stop()
        self._query.kill()
        self._find(self._ahead())
        self._drain_and_judge()
        self._server.close()
        if self._cluster is not None:
            self._result.on_cluster = 1
            self._result.speculative, self._result.speculative_first = self._cluster.speculation()
        self._result.seconds = time.monotonic() - begin
        return self._result

    # --- steps -------------------------------------------------------------------------------------------------------

    def _carry_out(self, step: Step) -> None:
        if step.kind in KILLS:
            self._query.await_moment(step.moment)
        done = {
            Kind.KILL_QUERY: self._kill_query,
            Kind.KILL_MASTER_AND_QUERY: self._kill_master_and_query,
            Kind.KILL_WORKER: lambda _: self._query.kill_worker(),
            Kind.KILL_SOURCE: lambda _: self._query.kill_source(),
            Kind.KILL_EXECUTOR: lambda _: self._query.kill_executor(),
            Kind.KILL_CLUSTER_WORKER: self._kill_cluster_worker,
            Kind.ADD_QUEUES: self._add_queues,
            Kind.ADD_TOPIC: self._add_topic,
        }.get(step.kind, self._disturb_server)(step)
        self._say(f"  step {self._ledger.step}: {step}" + " - nothing to do" * (not done))
        tally = self._result.kills if step.kind in KILLS else self._result.others
        tally[step.kind.value] += done

    def _disturb_server(self, step: Step) -> bool:
        before = self._query.count_finished()
        repair = self._server.disturb(step)
        try:
            time.sleep(step.lasts_s)
            if step.kind is Kind.KILL_MASTER:
                self._result.others[SERVED_BY_SLAVE] += self._query.count_finished() - before
        finally:
            repair()
        return True

    def _kill_master_and_query(self, step: Step) -> bool:
        """Lets messages wait for the query that only the slave can give it. A sink waits for the master.

        So does a batch that ends beyond the slave: masters of 4.9 also store messages that no slave gets in time.
        """
        setting = self._plan.setting
        is_reading = setting.delivery is None and setting.server != APACHE_4
        self._query.kill()
        self._find(self._ahead())
        time.sleep(WAITING_MESSAGES_S)
        before = self._query.count_finished()
        repair = self._server.disturb(step)
        try:
            self._query.start(step.max_offsets)
            self._query.await_finished(before + 1, SLAVE_SECONDS_MAX if is_reading else WRITING_SECONDS_MAX)
            finished = self._query.count_finished() - before
        finally:
            repair()
        self._result.others[SERVED_BY_SLAVE] += finished
        if is_reading and not finished:
            self._find(
                [f"no micro-batch was finished with the slave in {SLAVE_SECONDS_MAX:.0f} s.{self._query.log_end}"]
            )
        return True

    def _kill_query(self, step: Step) -> bool:
        self._query.kill()
        self._find(self._ahead())
        self._query.start(step.max_offsets)
        return True

    def _kill_cluster_worker(self, step: Step) -> bool:
        assert self._cluster is not None
        self._cluster.kill_worker(self._ledger.step, step.lasts_s)
        return True

    def _add_queues(self, step: Step) -> bool:
        self._server.add_queues(self._topics[step.topic % len(self._topics)], step.queues)
        return True

    def _add_topic(self, step: Step) -> bool:
        topic = f"soak-{len(self._topics)}"
        self._server.add_topic(topic, step.queues)
        self._topics = [*self._topics, topic]
        return True

    # --- the verdict -------------------------------------------------------------------------------------------------

    def _drain_and_judge(self) -> None:
        self._server.heal()
        self._ledger.step += 1
        if not self._query.drain(DRAIN_SECONDS_MAX):
            self._find([f"the query did not read to the end within {DRAIN_SECONDS_MAX:.0f} s.{self._query.log_end}"])
        rows = self._copied_rows() if self._plan.setting.delivery else list(output_rows(self._query.result))
        attempts = self._ledger.attempts()
        self._find(
            judge(attempts, self._plan.setting.wants, rows, self._server.read_ends(self._topics), self._read_offsets())
        )
        self._find(self._unexpected_failures())
        acknowledged = sum(attempt.acknowledged for attempt in attempts.values())
        self._result.acknowledged, self._result.unacknowledged = acknowledged, len(attempts) - acknowledged
        self._result.rows, self._result.failures = len(rows), len(self._query.failures)
        self._result.batches = self._query.count_finished()

    def _copied_rows(self) -> list[Row]:
        """Returns the messages in the topics of the sink. Of those that at-least-once repeated, only the first one."""
        self._find(self._server.find_leftovers())
        rows = self._server.read_copies(copy_topics(self._plan.setting))
        if self._plan.setting.delivery == EXACTLY_ONCE:
            return [entry.row for entry in rows]
        first = {entry.row_id: entry.row for entry in reversed(rows)}
        self._result.repeated += len(rows) - len(first)
        return [entry.row for entry in rows if first[entry.row_id] is entry.row]

    def _find(self, findings: Sequence[str]) -> None:
        plan = self._plan
        for finding in findings:
            told = f"seed {plan.seed} round {plan.number} step {self._ledger.step}: {finding}"
            self._say(f"  FOUND {told}")
            self._result.findings.append(told)

    def _ahead(self) -> list[str]:
        """Compares progress and checkpoint. To be called while the query is dead and nothing moves."""
        finished = spark_checkpoint.committed(self._query.checkpoint)
        if not finished:
            return ahead({}, self._read_offsets())
        end = json.loads(spark_checkpoint.source_offsets(self._query.checkpoint, finished[-1]))
        return ahead(_flat(end["offsets"]), self._read_offsets())

    def _unexpected_failures(self) -> list[str]:
        steps = self._plan.steps
        has_lost_python = any(step.kind in (Kind.KILL_WORKER, Kind.KILL_SOURCE) for step in steps)
        has_ordered = any(step.fault is not None and step.fault.may_end_query for step in steps)
        ended = [
            f"the query ended, although it must recover by itself: {failure}"
            for failure in self._query.failures
            if not (has_lost_python and _LOST_PYTHON.search(_find_cause(failure)))
            and not (has_ordered and _ORDERED.search(failure))
        ]
        # Spark retries a task, which would hide that the connector gave up.
        gave_up = [
            f"the connector gave up, although it must recover by itself: {error}"
            for error in self._query.connector_errors()
            if not (has_ordered and _ORDERED.search(error))
        ]
        return ended + gave_up

    def _read_offsets(self) -> dict[Queue, int]:
        return self._server.read_consumer_offsets(self._topics)


def _find_cause(failure: str) -> str:
    """Returns what Spark says after "Query ... terminated with exception"."""
    return failure.partition("terminated with exception")[2] or failure


def _flat(offsets: dict[str, dict[str, dict[str, int]]]) -> dict[Queue, int]:
    return {
        (topic, broker_name, int(queue_id)): offset
        for topic, brokers in offsets.items()
        for broker_name, queues in brokers.items()
        for queue_id, offset in queues.items()
    }
