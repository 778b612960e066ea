"""What a round consists of: a server with topics, a query, and the steps that happen to them."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

TAGS = ("red", "green", "blue")
PRICES = 100
"""The property price of a message is smaller than this."""
SOURCE, SINK = "source", "sink"
"""What is tested: a query from topics into files, or one from topics into other topics."""
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
RMQPULL_BROKER = "rmqpull-broker"
APACHE, APACHE_4, PROXY = "apache", "apache-4.9", "proxy"
"""Apache RocketMQ: the newest release that is known here, 4.9, and the newest one behind two proxies at one address."""
SERVERS = (RMQPULL_BROKER, APACHE, APACHE_4, PROXY)


class Kind(enum.Enum):
    """The kinds of steps."""

    KILL_BROKER = "broker killed"
    KILL_QUERY = "query killed (driver, JVM, Python)"
    KILL_WORKER = "Python worker killed"
    KILL_SOURCE = "driver's Python process of the source killed"
    KILL_EXECUTOR = "executor killed"
    KILL_CLUSTER_WORKER = "worker of the cluster killed, with its executor"
    KILL_MASTER = "master killed, its slave serves"
    KILL_MASTER_AND_QUERY = "query and master killed, the query starts with the slave"
    KILL_SLAVE = "slave killed"
    KILL_NAME_SERVER = "name server killed"
    KILL_PROXY = "proxy killed, another one serves"
    STALL_BROKER = "broker stopped for a while (SIGSTOP)"
    FAULT = "calls made to fail, wait or break"
    ADD_QUEUES = "queues added"
    ADD_TOPIC = "topic added"


_EVERYWHERE = (Kind.KILL_QUERY, Kind.KILL_BROKER, Kind.KILL_WORKER, Kind.KILL_SOURCE)
_ON_CLUSTER = (Kind.KILL_EXECUTOR, Kind.KILL_CLUSTER_WORKER)
_ON_REPLICAS = (Kind.KILL_MASTER, Kind.KILL_MASTER_AND_QUERY, Kind.KILL_SLAVE, Kind.KILL_NAME_SERVER)
ONLY_APACHE = (*_ON_REPLICAS, Kind.KILL_PROXY)
KILLS = (*_EVERYWHERE, *_ON_CLUSTER, *ONLY_APACHE)
DECK = (*_EVERYWHERE, Kind.KILL_BROKER, Kind.KILL_WORKER)
"""Kills are drawn from shuffled decks. A query takes the longest to restart, so it is killed the least."""
CLUSTER_DECK = (*_EVERYWHERE, *_ON_CLUSTER, Kind.KILL_EXECUTOR)
"""The deck of rounds on a cluster."""
APACHE_DECK = (*DECK, Kind.KILL_NAME_SERVER)
"""The deck of rounds with masters only."""
REPLICATED_DECK = (
    *(Kind.KILL_QUERY, Kind.KILL_WORKER, Kind.KILL_SOURCE),
    *_ON_REPLICAS,
    Kind.KILL_MASTER,
)
"""The deck of rounds with a SYNC_MASTER and its slave."""
PROXY_DECK = (*_EVERYWHERE, Kind.KILL_NAME_SERVER, *[Kind.KILL_PROXY] * 4)
"""The deck of rounds with masters behind proxies."""


class Moment(enum.Enum):
    """The moment of a kill, as seen from the query."""

    AT_ONCE = "at once"
    IN_A_BATCH = "in a batch"
    BETWEEN_BATCHES = "between batches"


@dataclass(frozen=True)
class Fault:
    """A fault rule for the broker, as in its admin service. HOLD ends with the step."""

    rpc: str
    action: str
    code: str = "CODE_UNSPECIFIED"
    delay_ms: int = 0
    times: int = 1
    after: bool = False

    @property
    def may_end_query(self) -> bool:
        """Whether the connector must not retry after it."""
        return self.action == "FAIL" and self.code != "TOO_MANY_REQUESTS"


@dataclass(frozen=True)
class Step:
    """A step, which happens ``wait_s`` after the previous one.

    ``lasts_s`` is how long a server is away or stopped, or calls are held. ``max_offsets`` is the limit of the query
    after its restart. ``topic`` is an index of a topic, modulo their number, and ``server`` one of a broker, of a name
    server or of a proxy.
    """

    kind: Kind
    wait_s: float
    moment: Moment = Moment.AT_ONCE
    lasts_s: float = 0.0
    max_offsets: int | None = None
    fault: Fault | None = None
    topic: int = 0
    queues: int = 0
    server: int = 0

    def __str__(self) -> str:
        words = [f"+{self.wait_s:.1f} s", self.kind.value]
        if self.kind in KILLS:
            words.append(self.moment.value)
        if self.lasts_s:
            words.append(f"for {self.lasts_s:.1f} s")
        if self.fault is not None:
            fault = self.fault
            words.append(f"{fault.times} x {fault.rpc} {fault.action} {fault.code if fault.action == 'FAIL' else ''}")
            words += [f"{fault.delay_ms} ms"] * bool(fault.delay_ms) + ["after it was done"] * fault.after
        if self.server:
            words.append(f"number {self.server}")
        if self.queues:
            words.append(f"{self.queues} of topic {self.topic}")
        return " ".join(words)


@dataclass(frozen=True)
class Setting:
    """What differs from round to round."""

    extensions: str
    brokers: tuple[str, ...]
    topics: tuple[tuple[str, int], ...]
    by_pattern: bool
    filter_type: str
    filter_expression: str
    available_now: bool
    trigger_ms: int
    large_body_bytes: int
    max_offsets: int
    options: tuple[tuple[str, str], ...] = ()
    delivery: str | None = None
    """The delivery of the sink; None if Spark's own sink writes files."""
    copy_topics: int = 1
    """The number of topics that the sink writes to. A message group is always in the same one."""
    on_cluster: bool = False
    """Whether the query runs on a standalone cluster of two workers with speculation, or in one JVM."""
    server: str = RMQPULL_BROKER
    has_slave: bool = False
    """Whether the broker is a SYNC_MASTER with a slave."""

    @property
    def is_apache(self) -> bool:
        """Whether the server is Apache RocketMQ."""
        return self.server != RMQPULL_BROKER

    @property
    def is_proxied(self) -> bool:
        """Whether the query reaches Apache RocketMQ through proxies only."""
        return self.server == PROXY

    @property
    def has_columns(self) -> bool:
        """Whether the broker serves batches in columns, or only the standard protocol."""
        return "columns" in self.extensions

    def wants(self, tag: str, price: int) -> bool:
        """Whether the filter accepts a message, evaluated independently of the broker."""
        if self.filter_type == "SQL92":
            return price >= int(self.filter_expression.split()[-1])
        return self.filter_expression == "*" or tag in self.filter_expression.split(" || ")

    def __str__(self) -> str:
        trigger = "AvailableNow again and again" if self.available_now else f"every {self.trigger_ms} ms"
        topics = ", ".join(f"{name}:{queues}" for name, queues in self.topics)
        options = " ".join(f"{name}={value}" for name, value in self.options)
        server = f"{self.server} with two name servers" if self.is_apache else f"extensions {self.extensions}"
        server += " and two proxies" * self.is_proxied
        return (
            f"{server}; brokers {','.join(self.brokers)}{' (SYNC_MASTER and slave)' if self.has_slave else ''}; "
            f"{'pattern over' if self.by_pattern else 'topics'} {topics}; "
            f"filter {self.filter_type} {self.filter_expression!r}; {trigger}; bodies up to {self.large_body_bytes}; "
            f"at first {self.max_offsets} offsets per trigger; "
            f"{options}"
            + (
                f"; written {self.delivery} to {self.copy_topics} topic" + "s" * (self.copy_topics > 1)
                if self.delivery
                else ""
            )
            + ("; on a cluster of two workers, with speculation" if self.on_cluster else "")
        )


@dataclass(frozen=True)
class Round:
    """A broker, a query, and what happens to them."""

    seed: int
    number: int
    setting: Setting
    steps: tuple[Step, ...] = field(default=())

    @property
    def kills(self) -> int:
        """The number of kills."""
        return sum(step.kind in KILLS for step in self.steps)

    def lines(self) -> Iterator[str]:
        """Yields the lines of the printed schedule."""
        yield f"seed {self.seed} round {self.number}: {self.setting}"
        yield from (f"  step {number}: {step}" for number, step in enumerate(self.steps, 1))
