"""One attack after the other, each on a broker of its own with a data directory."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.comparison import reason_of
from bench.hostile.attack import ATTACKED, QUEUES, Attack, Target
from bench.hostile.attacker import BEGUN
from bench.hostile.figures import GROWN_MB_MAX, Measured, percentile
from bench.hostile.half_core import half_core
from bench.hostile.healthy import HEALTHY, KEPT, WARM, keeping, read_numbers
from bench.java_load import JavaLoad
from bench.remoting_servers import RemotingServer
from processes.children import Child
from processes.process_table import Process
from rmqpull_broker.server.grpc.tls import make_own_certificate
from rmqpull_broker.testing import BrokerProcess

WARM_S = 1.0
BODY_BYTES = 100
PAUSE_MS = 5
BEGINS_S_MAX = 10.0
"""An attack whose preparation takes longer is measured anyway."""
SETTLED_S_MAX = 60.0
IDLE_S = 4.0
"""How long the broker must be almost idle before its memory counts as what the attack leaves behind."""
_IDLE_CORES = 0.2
KILLED_AFTER_S = 1.5
_LOOK_S = 0.5
_HEALTHY_QUEUES = 4


@dataclass(frozen=True)
class Course:
    """How each attack is run."""

    seconds: float
    folder: Path
    java: JavaLoad


def measure_alone(course: Course, number: int) -> float:
    """Returns the healthy client's p99 without an attack, in ms. Raises Mismeasured."""
    with _broker(course.folder / f"alone-{number}", with_tls=False) as broker:
        _send_for(course, broker, WARM, WARM_S)
        took_ms = _send_for(course, broker, HEALTHY, course.seconds)
    return percentile(took_ms, 99)


def measure(attack: Attack, course: Course) -> Measured:
    """Runs an attack. What goes wrong is in the result."""
    measured = Measured(attack.name, attack.sends, attack.bounded_by)
    try:
        with _broker(course.folder / attack.name, attack.with_tls) as broker:
            measured = _measure_beside(attack, course, broker, measured)
            return _kill_meanwhile(attack, course, broker, measured)
    except Exception as error:  # noqa: BLE001 (whatever it is: the figures of the other attacks are worth keeping)
        return replace(measured, failed=reason_of(error))


@contextmanager
def _broker(folder: Path, with_tls: bool) -> Iterator[BrokerProcess]:
    arguments = ["--metrics-listen", "127.0.0.1:0"]
    folder.mkdir(parents=True)
    if with_tls:
        arguments += ["--remoting-tls-mode", "permissive", *_certificate(folder)]
    topics = {ATTACKED: QUEUES, WARM: _HEALTHY_QUEUES, HEALTHY: _HEALTHY_QUEUES, KEPT: 1}
    broker = BrokerProcess(topics, data_dir=folder / "data", remoting="127.0.0.1:0", arguments=arguments)
    try:
        broker.start()
        asyncio.run(read_numbers(broker.endpoints))  # makes its group, before an attack uses up all groups
        yield broker
    finally:
        broker.kill()


def _certificate(folder: Path) -> list[str]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    for file, content in zip((certificate, key), make_own_certificate("127.0.0.1"), strict=True):
        file.write_bytes(content)
    return ["--tls-certificate", str(certificate), "--tls-key", str(key)]


@contextmanager
def _attacking(attack: Attack, broker: BrokerProcess, folder: Path) -> Iterator[Child]:
    metrics = broker.metrics_endpoints or ""
    target = Target(broker.remoting_addresses[0], broker.endpoints, metrics)
    command = [sys.executable, "-m", "bench.hostile.attacker", attack.name, target.to_text()]
    process = Child(f"attack {attack.name}", command, folder / f"{attack.name}.log", os.environ)
    try:
        with half_core(process.pid):
            _await_begin(process)
            yield process
    finally:
        process.kill()


def _await_begin(process: Child) -> None:
    try:
        line = process.read_line(BEGINS_S_MAX)
    except EOFError:
        line = "end"
    if line not in (None, BEGUN):
        raise RuntimeError(f"the attack ended before it began{process.log_end()}")


def _send_for(course: Course, broker: BrokerProcess, topic: str, seconds: float) -> list[float]:
    address = broker.remoting_addresses[0]
    return course.java.wake_for(address, topic, seconds, BODY_BYTES, PAUSE_MS)


def _measure_beside(attack: Attack, course: Course, broker: BrokerProcess, measured: Measured) -> Measured:
    _send_for(course, broker, WARM, WARM_S)
    process = Process(broker.pid)
    with _attacking(attack, broker, course.folder) as attacker:
        measured = replace(measured, before_mb=process.resident_mb())
        begun, broker_s, attacker_s = time.monotonic(), process.cpu_s(), Process(attacker.pid).cpu_s()
        took_ms = _send_for(course, broker, HEALTHY, course.seconds)
        if not attacker.is_running:
            raise RuntimeError(f"the attack ended by itself{attacker.log_end()}")
        took_s = time.monotonic() - begun
        measured = replace(
            measured,
            messages=len(took_ms),
            p50_ms=percentile(took_ms, 50),
            p99_ms=percentile(took_ms, 99),
            max_ms=max(took_ms),
            during_mb=process.resident_mb(),
            attacker_cores=(Process(attacker.pid).cpu_s() - attacker_s) / took_s,
            broker_cores=(process.cpu_s() - broker_s) / took_s,
        )
    return replace(measured, after_mb=_settle(process, measured.before_mb + GROWN_MB_MAX))


def _settle(process: Process, enough_mb: float) -> float:
    """Returns the resident set when it is small enough, or when the broker has been idle for some seconds.

    What a dead process has sent is still handled, and its connections end one by one.
    """
    deadline = time.monotonic() + SETTLED_S_MAX
    idle_s = 0.0
    while (resident_mb := process.resident_mb()) > enough_mb and idle_s < IDLE_S and time.monotonic() < deadline:
        busy_s = process.cpu_s()
        time.sleep(_LOOK_S)
        is_idle = process.cpu_s() - busy_s < _IDLE_CORES * _LOOK_S
        idle_s = idle_s + _LOOK_S if is_idle else 0.0
    return resident_mb


def _kill_meanwhile(attack: Attack, course: Course, broker: BrokerProcess, measured: Measured) -> Measured:
    """Kills the broker during the attack and starts it again. What was acknowledged must be there."""
    with (
        _attacking(attack, broker, course.folder),
        keeping(broker.remoting_addresses[0]) as keeper,
    ):
        time.sleep(KILLED_AFTER_S)
        broker.kill()
    broker.start()
    missing = set(keeper.acknowledged) - asyncio.run(read_numbers(broker.endpoints))
    address = broker.remoting_addresses[0]
    server = RemotingServer(address, address, (broker.pid,), broker.ready_s)
    sent = measured.messages + 1  # with the first one, whose time does not count
    stored = server.count(HEALTHY, _HEALTHY_QUEUES, sent)
    return replace(
        measured,
        acknowledged=sent + len(keeper.acknowledged),
        lost=len(missing) + max(0, sent - stored),
        failed="" if keeper.acknowledged else "no send was acknowledged before the kill",
    )
