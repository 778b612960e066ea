"""``rmqpull-broker`` as the server of a round."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from processes.children import Children
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import BrokerProcess
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rpc import ADMIN
from soak import copies
from soak.judge import Queue
from soak.plan import Fault, Kind, Setting, Step
from soak.rmqpull_sending import make_workloads
from soak.rpc import Calls
from soak.servers import COPIED_QUEUES, GROUP, TRANSACTION_TIMEOUT_MS, Copied, Repair, Workload, copy_topics

QUEUES_MAX = 12
STAGES_SECONDS_MORE = 15.0
"""How much later than its timeout a stage may be dropped: the broker may have been restarted meanwhile."""
# Segments so small that a round has several, with snapshots between them.
_SEGMENT_BYTES = 16 << 20


class RmqpullServer:
    """A broker with SYNC_FLUSH and a data directory. Calls raise NotAnswered."""

    def __init__(self, folder: Path, setting: Setting, children: Children) -> None:
        self._data = folder / "broker"
        self._children = children
        self._setting = setting
        topics: dict[str, int | tuple[int, TopicType]] = dict(setting.topics)
        topics.update((topic, (COPIED_QUEUES, TopicType.FIFO)) for topic in copy_topics(setting))
        arguments = ["--brokers", ",".join(setting.brokers), "--log-level", "warning"]
        arguments += ["--property", f"mappedFileSizeCommitLog={_SEGMENT_BYTES}"]
        self._broker = BrokerProcess(
            topics,
            data_dir=self._data,
            extensions=setting.extensions,
            arguments=arguments,
            log_file=folder / "broker.log",
        )

    @property
    def options(self) -> Mapping[str, str]:
        return {"endpoints": self._broker.endpoints}

    @property
    def workloads(self) -> Sequence[Workload]:
        return make_workloads(self._calls, self._setting)

    def start(self) -> None:
        self._children.start_broker(self._broker)
        self._broker.topics = {}  # topics may have more queues after a restart
        self._calls = Calls(self._broker.endpoints)

    def disturb(self, step: Step) -> Repair:
        if step.kind is Kind.KILL_BROKER:
            self._broker.kill()
            return lambda: self._children.start_broker(self._broker)
        if step.kind is Kind.STALL_BROKER:
            self._broker.send_signal(signal.SIGSTOP)
            return lambda: self._broker.send_signal(signal.SIGCONT)
        assert step.fault is not None, step
        answer = self._calls(ADMIN.methods["PutFaultRule"], admin.PutFaultRuleRequest(rule=_rule(step.fault)))
        if not step.lasts_s:
            return lambda: None
        request = admin.DeleteFaultRulesRequest(ids=[answer.rule.id])
        return lambda: self._calls(ADMIN.methods["DeleteFaultRules"], request)

    def heal(self) -> None:
        self._calls(ADMIN.methods["DeleteFaultRules"], admin.DeleteFaultRulesRequest())

    def add_queues(self, topic: str, count: int) -> None:
        described = self._calls(ADMIN.methods["DescribeTopic"], admin.DescribeTopicRequest(name=topic)).topic
        self._put_topic(topic, admin.PutMode.UPDATE, min(described.read_queue_nums + count, QUEUES_MAX))

    def add_topic(self, topic: str, queues: int) -> None:
        self._put_topic(topic, admin.PutMode.CREATE, queues)

    def read_ends(self, topics: Iterable[str]) -> dict[Queue, int]:
        method = ADMIN.methods["DescribeTopic"]
        return {
            (topic, queue.broker_name, queue.queue_id): queue.max_offset
            for topic in topics
            for queue in self._calls(method, admin.DescribeTopicRequest(name=topic)).queues
        }

    def read_consumer_offsets(self, topics: Iterable[str]) -> dict[Queue, int]:
        answer = self._calls(ADMIN.methods["QueryLag"], admin.QueryLagRequest(topics=list(topics)))
        return {
            (entry.queue.topic, entry.queue.broker_name, entry.queue.queue_id): entry.consumer_offset
            for entry in answer.progress
            if entry.group == GROUP and entry.HasField("consumer_offset")
        }

    def read_copies(self, topics: Collection[str]) -> list[Copied]:
        return list(copies.rows(self._data, set(topics)))

    def find_leftovers(self) -> list[str]:
        deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000 + STAGES_SECONDS_MORE
        while (left := copies.open_stages(self._data)) and time.monotonic() < deadline:
            time.sleep(1)
        return [f"stages are open beyond their timeout: {stage_id}" for stage_id in left]

    def close(self) -> None:
        self._calls.close()
        self._broker.kill()

    def _put_topic(self, topic: str, mode: admin.PutMode, queues: int) -> None:
        request = admin.PutTopicRequest(name=topic, mode=mode, read_queue_nums=queues, write_queue_nums=queues)
        self._calls(ADMIN.methods["PutTopic"], request)


def _rule(fault: Fault) -> admin.FaultRule:
    return admin.FaultRule(
        rpc=fault.rpc,
        action=fault.action,
        code=fault.code,
        delay_ms=fault.delay_ms,
        times=fault.times,
        after=fault.after,
    )
