"""The workloads that Apache's Java clients run on both servers, with their costs and the memory of the servers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bench.comparison import OURS, Comparison, Contender, Mismeasured, contain_failure, measure_all
from bench.costs import Costs
from bench.java_load import PULL_BATCH_SIZE, JavaLoad
from bench.remoting_servers import APACHE, SYNC, RemotingServer
from bench.remoting_sizes import RemotingSizes
from bench.results import Aim

ROWS, PUSHED, SINGLE, BATCHES, WAKE = "rows", "pushed", "single", "batches", "wake"
FILL_BATCH_SIZE, FILL_THREADS = 1_000, 4
WARM_UPS = 1
RESIDENT_MB_MAX = 130
KINDS = ("Java client", "server")
AS_FAST, AS_SOON = Aim(at_least=1.0), Aim(at_most=1.0)

Measured = tuple[list[Comparison], list[Costs]]


@dataclass
class Pair:
    """Both servers, by contender, and the clients. ``flush`` is how both write to disk."""

    servers: Mapping[str, RemotingServer]
    java: JavaLoad
    sizes: RemotingSizes
    flush: str
    wakes: dict[str, int] = field(default_factory=dict)
    """How many runs of each contender have woken a consumer."""

    def compare(self, name: str, title: str, unit: str, aim: Aim | None = None, contender: str = APACHE) -> Comparison:
        """Makes a comparison. Aims are for SYNC_FLUSH."""
        aims = {contender: aim} if aim and self.flush == SYNC else {}
        return Comparison(f"remoting-{name}-{self.flush}", f"{title}, {self.flush}", unit, aims)

    def spent(self, name: str) -> dict[str, float]:
        """Returns the processor time of the clients and of one server so far."""
        client, server = KINDS
        return {client: self.java.cpu_s(), server: self.servers[name].cpu_s()}


def list_topics(sizes: RemotingSizes) -> list[str]:
    """Returns the topics of a server. Each run that wakes a consumer has its own, so that nothing waits there."""
    return [ROWS, PUSHED, SINGLE, BATCHES, *(f"{WAKE}{number}" for number in range(WARM_UPS + sizes.runs))]


def workloads(pair: Pair) -> Iterator[Measured]:
    """Measures everything. Memory comes last, because it depends on what ran before."""
    sizes, java = pair.sizes, pair.java
    idle = pair.compare("idle", "resident set of an idle server", "MB", Aim(at_most=RESIDENT_MB_MAX), OURS)
    _look(pair, idle)
    per_batch = f"batches of {sizes.batch_size}"
    yield _sends(pair, SINGLE, f"single sends, {sizes.threads} threads", sizes.single_sends, 1)
    yield _sends(pair, BATCHES, f"batch sends, {per_batch}", sizes.batched_sends, sizes.batch_size)
    yield _wakes(pair)
    yield _reads(pair, ROWS, f"lite pull, batches of {PULL_BATCH_SIZE}", sizes.rows, java.read, AS_FAST)
    yield _reads(pair, PUSHED, "push consumer", sizes.pushed_rows, java.push)
    after = pair.compare("after", "resident set after all of this", "MB", Aim(at_most=RESIDENT_MB_MAX), OURS)
    _look(pair, after)
    yield [idle, after], []


def _look(pair: Pair, comparison: Comparison) -> None:
    for name, server in pair.servers.items():
        with contain_failure(name, comparison):
            comparison.add(name, server.resident_mb())


def _sends(pair: Pair, topic: str, title: str, messages: int, per_batch: int) -> Measured:
    sizes, java = pair.sizes, pair.java
    comparison = pair.compare(topic, title, "messages/s", AS_FAST)

    def send(server: RemotingServer) -> float:
        return java.write(server.name_server, topic, messages, sizes.body_bytes, per_batch, sizes.threads)

    costs = _measure(pair, comparison, messages, send)
    _check(pair, topic, messages * (WARM_UPS + sizes.runs), comparison)
    return [comparison], [costs]


def _reads(
    pair: Pair, topic: str, title: str, rows: int, read: Callable[[str, str, int, int], float], aim: Aim | None = None
) -> Measured:
    comparison = pair.compare(topic, title, "messages/s", aim)
    for name, server in pair.servers.items():
        with contain_failure(name, comparison):
            pair.java.fill(server.name_server, topic, rows, pair.sizes.body_bytes, FILL_BATCH_SIZE, FILL_THREADS)
    _check(pair, topic, rows, comparison)
    costs = _measure(
        pair, comparison, rows, lambda server: read(server.name_server, topic, rows, pair.sizes.body_bytes)
    )
    return [comparison], [costs]


def _measure(pair: Pair, comparison: Comparison, messages: int, seconds: Callable[[RemotingServer], float]) -> Costs:
    """Measures the rate of both servers, and adds the costs."""

    def rate(name: str, server: RemotingServer) -> float:
        return messages / costs.watch(name, messages, partial(seconds, server), partial(pair.spent, name))()

    costs = Costs(comparison.title, KINDS)
    contenders = [Contender(name, partial(rate, name, server), [comparison]) for name, server in pair.servers.items()]
    measure_all(contenders, pair.sizes.runs, WARM_UPS, alternates=True)
    costs.drop_warm_ups(WARM_UPS)
    return costs


def _wakes(pair: Pair) -> Measured:
    """Measures the time from the start of a send until a waiting push consumer has the message."""
    messages, body_bytes = pair.sizes.wake_ups, pair.sizes.body_bytes
    p50, p99 = (pair.compare(f"wake-{p}", f"send to waiting consumer, {p}", "ms", AS_SOON) for p in ("p50", "p99"))
    slow: dict[str, list[float]] = {name: [] for name in pair.servers}
    costs = Costs(p50.title.replace(", p50", ""), KINDS)

    def wake(name: str, server: RemotingServer) -> float:
        topic = f"{WAKE}{len(slow[name])}"
        before = pair.spent(name)
        took_ms = sorted(pair.java.wake(server.name_server, topic, messages, body_bytes))
        costs.add(name, before, pair.spent(name), messages)
        slow[name].append(percentile(took_ms, 99))
        return percentile(took_ms, 50)

    contenders = [Contender(name, partial(wake, name, server), [p50]) for name, server in pair.servers.items()]
    measure_all(contenders, pair.sizes.runs, WARM_UPS, alternates=True)
    costs.drop_warm_ups(WARM_UPS)
    p99.failed |= p50.failed
    p99.figures |= {name: figures[WARM_UPS:] for name, figures in slow.items() if name not in p99.failed}
    return [p50, p99], [costs]


def percentile(in_order: Sequence[float], percent: int) -> float:
    """Returns the smallest figure that so many per cent of all do not exceed."""
    return in_order[math.ceil(len(in_order) * percent / 100) - 1]


def _check(pair: Pair, topic: str, wanted: int, comparison: Comparison) -> None:
    """Marks servers as failed whose topic does not have all messages exactly once."""
    for name, server in pair.servers.items():
        if name not in comparison.failed:
            with contain_failure(name, comparison):
                if (found := server.count(topic, pair.sizes.queues, wanted)) != wanted:
                    raise Mismeasured(f"its topic has {found} messages instead of {wanted}")
