"""Runs a round: steps happen to a broker and a query while producers send. Then the output is judged."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demo import checkpoint as spark_checkpoint
from processes.children import Children
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rpc import ADMIN
from soak import copies
from soak.cluster import Cluster
from soak.judge import Queue, ahead, judge
from soak.ledger import Ledger
from soak.output import Row
from soak.output import rows as output_rows
from soak.producers import Producers
from soak.query import GROUP, TRANSACTION_TIMEOUT_MS, Query, broker, copy_topics
from soak.rpc import Calls
from soak.schedule import EXACTLY_ONCE, KILLS, Fault, Kind, Round, Step

DRAIN_SECONDS_MAX = 300.0
QUEUES_MAX = 12
STAGES_SECONDS_MORE = 15.0
"""How much later than its timeout a stage may be dropped: the broker may have been restarted meanwhile."""
# What Spark reports if a Python process is gone, and what a fault rule makes the broker respond.
_LOST_PYTHON = re.compile(r"Python worker|EOFException|SocketException|Broken pipe|Connection reset|terminated|crashed")
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
        self._data = folder / "broker"
        self._ledger = Ledger()
        self._topics = [name for name, _ in plan.setting.topics]
        self._children = children
        self._broker = broker(folder, plan.setting)
        children.start_broker(self._broker)
        self._broker.topics = {}  # topics may have more queues after a restart
        self._calls = Calls(self._broker.endpoints)
        self._cluster = Cluster(children, folder) if plan.setting.on_cluster else None
        self._query = Query(children, folder, self._broker.endpoints, plan.setting, self._cluster)

    def run(self) -> Result:
        """Runs the round and returns its result."""
        begin = time.monotonic()
        plan = self._plan
        producers = Producers(
            self._broker.endpoints, plan.setting, f"{plan.seed}/{plan.number}", self._ledger, lambda: self._topics
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
        self._calls.close()
        self._broker.kill()
        if self._cluster is not None:
            self._result.on_cluster = 1
            self._result.speculative, self._result.speculative_first = self._cluster.speculation()
        self._result.seconds = time.monotonic() - begin
        return self._result

    # --- steps -------------------------------------------------------------------------------------------------------

    def _carry_out(self, step: Step) -> None:
        done = {
            Kind.KILL_BROKER: self._kill_broker,
            Kind.KILL_QUERY: self._kill_query,
            Kind.KILL_WORKER: self._kill_worker,
            Kind.KILL_SOURCE: self._kill_source,
            Kind.KILL_EXECUTOR: self._kill_executor,
            Kind.KILL_CLUSTER_WORKER: self._kill_cluster_worker,
            Kind.STALL_BROKER: self._stall_broker,
            Kind.FAULT: self._order_fault,
            Kind.ADD_QUEUES: self._add_queues,
            Kind.ADD_TOPIC: self._add_topic,
        }[step.kind](step)
        self._say(f"  step {self._ledger.step}: {step}" + " - nothing to do" * (not done))
        tally = self._result.kills if step.kind in KILLS else self._result.others
        tally[step.kind.value] += done

    def _kill_broker(self, step: Step) -> bool:
        self._query.await_moment(step.moment)
        self._broker.kill()
        time.sleep(step.lasts_s)
        self._children.start_broker(self._broker)
        return True

    def _kill_query(self, step: Step) -> bool:
        self._query.await_moment(step.moment)
        self._query.kill()
        self._find(self._ahead())
        self._query.start(step.max_offsets)
        return True

    def _kill_worker(self, step: Step) -> bool:
        self._query.await_moment(step.moment)
        return self._query.kill_worker()

    def _kill_source(self, step: Step) -> bool:
        self._query.await_moment(step.moment)
        return self._query.kill_source()

    def _kill_executor(self, step: Step) -> bool:
        self._query.await_moment(step.moment)
        return self._query.kill_executor()

    def _kill_cluster_worker(self, step: Step) -> bool:
        assert self._cluster is not None
        self._query.await_moment(step.moment)
        self._cluster.kill_worker(self._ledger.step, step.lasts_s)
        return True

    def _stall_broker(self, step: Step) -> bool:
        self._broker.send_signal(signal.SIGSTOP)
        try:
            time.sleep(step.lasts_s)
        finally:
            self._broker.send_signal(signal.SIGCONT)
        return True

    def _order_fault(self, step: Step) -> bool:
        assert step.fault is not None
        answer = self._calls(ADMIN.methods["PutFaultRule"], admin.PutFaultRuleRequest(rule=_rule(step.fault)))
        if step.lasts_s:
            time.sleep(step.lasts_s)
            self._calls(ADMIN.methods["DeleteFaultRules"], admin.DeleteFaultRulesRequest(ids=[answer.rule.id]))
        return True

    def _add_queues(self, step: Step) -> bool:
        topic = self._topics[step.topic % len(self._topics)]
        described = self._calls(ADMIN.methods["DescribeTopic"], admin.DescribeTopicRequest(name=topic)).topic
        queues = min(described.read_queue_nums + step.queues, QUEUES_MAX)
        self._put_topic(topic, admin.PutMode.UPDATE, queues)
        return True

    def _add_topic(self, step: Step) -> bool:
        topic = f"soak-{len(self._topics)}"
        self._put_topic(topic, admin.PutMode.CREATE, step.queues)
        self._topics = [*self._topics, topic]
        return True

    def _put_topic(self, topic: str, mode: admin.PutMode, queues: int) -> None:
        request = admin.PutTopicRequest(name=topic, mode=mode, read_queue_nums=queues, write_queue_nums=queues)
        self._calls(ADMIN.methods["PutTopic"], request)

    # --- the verdict -------------------------------------------------------------------------------------------------

    def _drain_and_judge(self) -> None:
        self._calls(ADMIN.methods["DeleteFaultRules"], admin.DeleteFaultRulesRequest())
        self._ledger.step += 1
        if not self._query.drain(DRAIN_SECONDS_MAX):
            self._find([f"the query did not read to the end within {DRAIN_SECONDS_MAX:.0f} s.{self._query.log_end}"])
        rows = self._copied_rows() if self._plan.setting.delivery else list(output_rows(self._query.result))
        attempts = self._ledger.attempts()
        self._find(judge(attempts, self._plan.setting.wants, rows, self._ends(), self._committed()))
        self._find(self._unexpected_failures())
        acknowledged = sum(attempt.acknowledged for attempt in attempts.values())
        self._result.acknowledged, self._result.unacknowledged = acknowledged, len(attempts) - acknowledged
        self._result.rows, self._result.failures = len(rows), len(self._query.failures)
        self._result.batches = len(spark_checkpoint.committed(self._query.checkpoint))

    def _copied_rows(self) -> list[Row]:
        """Returns the messages in the topics of the sink. Of those that at-least-once repeated, only the first one."""
        deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000 + STAGES_SECONDS_MORE
        while (left := copies.open_stages(self._data)) and time.monotonic() < deadline:
            time.sleep(1)
        self._find([f"stages are open beyond their timeout: {stage_id}" for stage_id in left])
        rows = list(copies.rows(self._data, set(copy_topics(self._plan.setting))))
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
            return ahead({}, self._committed())
        end = json.loads(spark_checkpoint.source_offsets(self._query.checkpoint, finished[-1]))
        return ahead(_flat(end["offsets"]), self._committed())

    def _unexpected_failures(self) -> list[str]:
        steps = self._plan.steps
        has_lost_python = any(step.kind in (Kind.KILL_WORKER, Kind.KILL_SOURCE) for step in steps)
        has_ordered = any(step.fault is not None and step.fault.may_end_query for step in steps)
        ended = [
            f"the query ended, though it must recover by itself: {failure}"
            for failure in self._query.failures
            if not (has_lost_python and _LOST_PYTHON.search(failure)) and not (has_ordered and _ORDERED.search(failure))
        ]
        # Spark retries a task, which would hide that the connector gave up.
        gave_up = [
            f"the connector gave up, though it must go on by itself: {error}"
            for error in self._query.connector_errors()
            if not (has_ordered and _ORDERED.search(error))
        ]
        return ended + gave_up

    def _ends(self) -> dict[Queue, int]:
        method = ADMIN.methods["DescribeTopic"]
        return {
            (topic, queue.broker_name, queue.queue_id): queue.max_offset
            for topic in self._topics
            for queue in self._calls(method, admin.DescribeTopicRequest(name=topic)).queues
        }

    def _committed(self) -> dict[Queue, int]:
        answer = self._calls(ADMIN.methods["QueryLag"], admin.QueryLagRequest(topics=self._topics))
        return {
            (entry.queue.topic, entry.queue.broker_name, entry.queue.queue_id): entry.consumer_offset
            for entry in answer.progress
            if entry.group == GROUP and entry.HasField("consumer_offset")
        }


def _rule(fault: Fault) -> admin.FaultRule:
    return admin.FaultRule(
        rpc=fault.rpc,
        action=fault.action,
        code=fault.code,
        delay_ms=fault.delay_ms,
        times=fault.times,
        after=fault.after,
    )


def _flat(offsets: dict[str, dict[str, dict[str, int]]]) -> dict[Queue, int]:
    return {
        (topic, broker_name, int(queue_id)): offset
        for topic, brokers in offsets.items()
        for broker_name, queues in brokers.items()
        for queue_id, offset in queues.items()
    }
