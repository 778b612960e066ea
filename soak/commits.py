"""``python -m soak.commits``: kills a broker during commits, retention by size, and reads of what was committed.

One broker keeps its data directory through all kills. After each restart everything that can be read is read before
anything is written: what was acknowledged is there once, each commit wholly or not at all, and no queue has a hole.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import click

from bench.machine_lock import keep_benchmarks_away
from processes.children import Children, Signals
from rmqpull_broker.testing import BrokerProcess
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rpc import ADMIN
from soak.commit_reading import QueueReader
from soak.commit_rows import Judge, Ledger
from soak.commit_writing import CommitWriter, SingleSender, repeat, wait_for_moment
from soak.rpc import Calls
from soak.servers import NotAnswered

TOPICS = {"left": 8, "right": 4}
SEGMENT_BYTES, RETENTION_BYTES = 2 << 20, 96 << 20
"""More than is written between two reads, so that retention deletes only what was read, and no open stage."""
RETENTION_PAUSE_S = 0.5
READ_AGAIN_EVERY = 10
"""After so many kills all that is kept is read again."""
END_S = 90.0


class CommitSoak:
    """A broker, its writers and readers, and what was found so far."""

    def __init__(self, seed: int, folder: Path, children: Children, say: Callable[[str], None]) -> None:
        self._children, self._say = children, say
        self._dice = random.Random(f"{seed}/commits")
        self._committing = Event()
        self.ledger = Ledger()
        self.judge = Judge(self.ledger)
        self.findings: list[str] = []
        self.moments: Counter[str] = Counter()
        topics = list(TOPICS)
        self._writers = [
            CommitWriter(number, topics, self.ledger, self._committing, random.Random(f"{seed}/{number}"), number > 1)
            for number in range(4)
        ]
        self._singles = SingleSender(100, topics, self.ledger)
        self._readers = [
            QueueReader(topic, "broker-a", queue_id, self.judge.add, self.find)
            for topic, count in TOPICS.items()
            for queue_id in range(count)
        ]
        arguments = ["--log-level", "warning"]
        for name, value in (("mappedFileSizeCommitLog", SEGMENT_BYTES), ("retentionBytes", RETENTION_BYTES)):
            arguments += ["--property", f"{name}={value}"]
        self._broker = BrokerProcess(
            dict(TOPICS), data_dir=folder / "broker", arguments=arguments, log_file=folder / "broker.log"
        )
        self._children.start_broker(self._broker)
        self._calls = Calls(self._broker.endpoints)

    def find(self, finding: str) -> None:
        """Keeps what is wrong."""
        told = f"after {self.moments.total()} kills: {finding}"
        self._say(f"  FOUND {told}")
        self.findings.append(told)

    def kill_once(self) -> None:
        """Writes and reads until a kill, starts the broker again, and checks what it has."""
        ended = Event()
        work: list[Callable[[Calls, Event], None]] = [
            *(writer.run for writer in self._writers),
            self._singles.run,
            self._read_on,
            repeat(ADMIN.methods["ExpireNow"], admin.ExpireNowRequest, RETENTION_PAUSE_S),
        ]
        calls = Calls(self._broker.endpoints)  # a new one, whose calls all end with the kill
        threads = [Thread(target=_run_until_closed, args=(run, calls, ended), daemon=True) for run in work]
        for thread in threads:
            thread.start()
        moment = wait_for_moment(self._committing, self._dice)
        ended.set()
        self._broker.kill()
        calls.close()
        for thread in threads:
            thread.join(END_S)
            if thread.is_alive():
                self.find("a call did not end with the broker")
        self.moments[moment] += 1
        self._children.start_broker(self._broker)
        self.check(is_thorough=self.moments.total() % READ_AGAIN_EVERY == 0)

    def check(self, *, is_thorough: bool) -> None:
        """Reads what is new, or everything, and judges."""
        for reader in self._readers:
            reader.read_new(self._calls)
            if is_thorough:
                reader.read_again(self._calls)
        for finding in self.judge.judge():
            self.find(finding)

    def finish(self) -> None:
        """Ends what has no response, and checks that nothing is left open."""
        for writer in self._writers:
            writer.finish(self._calls)
        self.check(is_thorough=True)
        self._calls.close()
        self._broker.stop()

    def _read_on(self, calls: Calls, ended: Event) -> None:
        try:
            while not ended.is_set():
                for reader in self._readers:
                    reader.read_new(calls)
                self._dice.choice(self._readers).read_again(calls, self._dice)
        except NotAnswered:
            return

    def count_deleted(self) -> int:
        """Returns how many rows retention has deleted."""
        return sum(reader.begin for reader in self._readers)

    def line(self) -> str:
        """Returns the counts so far."""
        return (
            f"{self.moments.total()} kills, {len(self.ledger.acknowledged):,} commits and single messages "
            f"acknowledged, {len(self.ledger.dropped):,} dropped, {self.judge.rows:,} rows read, "
            f"{self.count_deleted():,} of them deleted since, {len(self.findings)} findings"
        )


def _run_until_closed(run: Callable[[Calls, Event], None], calls: Calls, ended: Event) -> None:
    try:
        run(calls, ended)
    except ValueError:  # the connection is closed
        if not ended.is_set():
            raise


@click.command()
@click.option("--seed", default=1, help="Seed of the random choices.  [default: 1]")
@click.option("--kills", default=500, type=click.IntRange(min=1), help="How often to kill the broker.  [default: 500]")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the result to this file.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep data and logs in this new folder.")
def main(seed: int, kills: int, json_file: Path | None, folder: Path | None) -> None:
    """Kill the broker during commits, retention and reads, and check what it has after each restart.

    The exit code is 1 if a row is lost, doubled or altered, a commit is there in part, or a queue has a hole.
    """
    keep_benchmarks_away()
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="rmqpull-soak-") as temporary,
        Children(dict(os.environ), Signals()) as children,
    ):
        used = folder or Path(temporary)
        used.mkdir(parents=True, exist_ok=True)
        soak = CommitSoak(seed, used, children, say)
        for _ in range(kills):
            soak.kill_once()
            say(soak.line())
        soak.finish()
    write(soak, seed, time.monotonic() - begin, json_file)
    verdict = ["every acknowledged row is there once, each commit wholly or not at all, and no queue has a hole"]
    say("\n".join(["FAILED:", *soak.findings] if soak.findings else verdict))
    sys.exit(bool(soak.findings))


def write(soak: CommitSoak, seed: int, seconds: float, json_file: Path | None) -> None:
    """Writes the result, if a file was asked for."""
    result = {
        "seed": seed,
        "kills": dict(soak.moments),
        "acknowledged": len(soak.ledger.acknowledged),
        "dropped": len(soak.ledger.dropped),
        "rows": soak.judge.rows,
        "deleted_by_retention": soak.count_deleted(),
        "minutes": round(seconds / 60, 1),
        "findings": soak.findings,
    }
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def say(line: str) -> None:
    """Prints without buffering, because people watch a soak."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
