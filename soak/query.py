"""The query of a round, a process with a checkpoint. It is killed and started again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from demo import checkpoint as spark_checkpoint
from processes.children import Children, ProcessFailed
from soak import kill_targets
from soak.cluster import Cluster
from soak.plan import EXACTLY_ONCE, Moment, Setting
from soak.servers import GROUP, TRANSACTION_TIMEOUT_MS, copy_topics

# Four attempts per task, as on a cluster: a lost Python worker must not end the query.
LOCAL_MASTER = "local[2,4]"
MOMENT_SECONDS_MAX = 120.0
"""How long a kill waits for its moment, after which it happens anyway."""
_LOOK_S = 0.02


class Query:
    """Starts ``query_job.py`` as often as needed, with one checkpoint and one output, here or on a cluster."""

    def __init__(
        self,
        children: Children,
        folder: Path,
        server_options: Mapping[str, str],
        setting: Setting,
        cluster: Cluster | None = None,
    ) -> None:
        self.checkpoint = folder / "checkpoint"
        self.result = folder / "result"
        self.failures: list[str] = []
        self._children = children
        self._log = folder / "query.log"
        self._server_options = server_options
        self._setting = setting
        self._cluster = cluster

    def start(self, max_offsets: int | None = None, drain: bool = False) -> None:
        """Starts the query. With ``drain`` it ends when it has read everything."""
        setting = self._setting
        config = {
            "master": self._cluster.url if self._cluster else LOCAL_MASTER,
            "settings": self._cluster.settings if self._cluster else {},
            "options": self._options(max_offsets),
            "result": str(self.result),
            "checkpoint": str(self.checkpoint),
            "availableNow": setting.available_now or drain,
            "triggerMs": setting.trigger_ms,
            "drain": drain,
            "sink": self._sink_options(),
            "copyTopics": copy_topics(setting),
        }
        command = [sys.executable, "-m", "soak.query_job", json.dumps(config)]
        self._process = self._children.start("query", command, self._log)
        self._is_killed = self._is_running = False

    def _options(self, max_offsets: int | None) -> dict[str, str]:
        setting = self._setting
        options = {
            **self._server_options,
            "consumerGroup": GROUP,
            "startingOffsets": "earliest",
            "filterType": setting.filter_type,
            "filterExpression": setting.filter_expression,
            "requestTimeoutMs": "60000",
            "trigger": "availableNow" if setting.available_now else "processingTime",  # for PySpark 4.0 and 4.1
            **dict(setting.options),
        }
        options |= {"topicPattern": "soak-.*"} if setting.by_pattern else {"topic": ",".join(dict(setting.topics))}
        if setting.is_proxied:
            # A proxy repeats what a freshly started name server says: that the topics do not exist.
            options["waitForTopic"] = "2m"
        return options if max_offsets is None else options | {"maxOffsetsPerTrigger": str(max_offsets)}

    def _sink_options(self) -> dict[str, str] | None:
        delivery = self._setting.delivery
        if delivery is None:
            return None
        return {
            **self._server_options,
            "delivery": delivery,
            "requestTimeoutMs": "60000",
            "batchBytes": "65536",  # small, so that a stage has several calls
            **({"transactionTimeoutMs": str(TRANSACTION_TIMEOUT_MS)} if delivery == EXACTLY_ONCE else {}),
        }

    def await_moment(self, moment: Moment) -> None:
        """Returns when the query is at the moment, or after MOMENT_SECONDS_MAX."""
        deadline = time.monotonic() + MOMENT_SECONDS_MAX
        first = len(spark_checkpoint.planned(self.checkpoint))
        while moment is not Moment.AT_ONCE and time.monotonic() < deadline and self._process.is_running:
            # Only for a batch that was planned meanwhile: one that an earlier kill left unfinished may not run yet.
            is_in_batch = spark_checkpoint.unfinished(self.checkpoint) is not None
            has_moved = len(spark_checkpoint.planned(self.checkpoint)) > first
            if is_in_batch is (moment is Moment.IN_A_BATCH) and has_moved:
                return
            time.sleep(_LOOK_S)

    def count_finished(self) -> int:
        """Returns how many micro-batches Spark has finished."""
        return len(spark_checkpoint.committed(self.checkpoint))

    def await_finished(self, count: int, seconds_max: float) -> None:
        """Returns when this many micro-batches are finished, or after ``seconds_max``."""
        deadline = time.monotonic() + seconds_max
        while self.count_finished() < count and time.monotonic() < deadline and self._process.is_running:
            time.sleep(_LOOK_S)

    def kill(self) -> None:
        """Kills the driver, its JVM and all their Python processes."""
        self._note_lines()
        self._process.kill()
        self._note(self._process.read_rest())
        self._is_killed = True

    def kill_worker(self) -> bool:
        """Kills a Python worker as soon as there is one. Returns False if there is none for long."""
        return self._kill_child(kill_targets.find_workers)

    def kill_source(self) -> bool:
        """Kills the driver's Python process of the source, in the same way."""
        return self._kill_child(kill_targets.find_sources)

    def kill_executor(self) -> bool:
        """Kills the JVM of an executor, in the same way."""
        return self._kill_child(kill_targets.find_executors)

    def _kill_child(self, find: kill_targets.Find) -> bool:
        deadline = time.monotonic() + MOMENT_SECONDS_MAX
        while time.monotonic() < deadline and self._process.is_running:
            self._note_lines()
            # Before the query runs, Spark looks up its data sources once. A kill then leaves a JVM that knows none.
            sessions = [self._process.pid, *(self._cluster.sessions if self._cluster else [])]
            if self._is_running and kill_targets.kill_newest([pid for session in sessions for pid in find(session)]):
                return True
            time.sleep(_LOOK_S)
        return False

    def look(self) -> None:
        """Reads the events of the query. If its process died by itself, records a failure and starts it again."""
        self._note_lines()
        if not self._process.is_running and not self._is_killed:
            self.failures.append(f"The query's process died by itself.{self._process.log_end()}")
            self._process.kill()
            self.start(self._setting.max_offsets)

    def drain(self, seconds_max: float) -> bool:
        """Runs the query without limits. Returns whether it reads all that is left and ends in time."""
        self.start(drain=True)
        try:
            code = self._process.wait(seconds_max)
        except ProcessFailed:
            code = None
        self.kill()
        return code == 0

    def _note_lines(self) -> None:
        lines: list[str] = []
        with suppress(EOFError):
            while (line := self._process.read_line(0)) is not None:
                lines.append(line)
        self._note(lines)

    def _note(self, lines: list[str]) -> None:
        for line in lines:
            event = json.loads(line) if line.startswith("{") else {}
            self._is_running = self._is_running or event.get("event") == "running"
            if event.get("event") == "failed":
                self.failures.append(event["why"])

    def connector_errors(self) -> list[str]:
        """Returns the errors of the connector in the driver and in tasks, each once."""
        of_executors = self._cluster.connector_errors() if self._cluster else set()
        return sorted(kill_targets.read_connector_errors(self._log) | of_executors)

    @property
    def log_end(self) -> str:
        """The end of Spark's log."""
        return self._process.log_end()
