"""Generates the tables of docs/broker-support.md: calls, refusals, limits, and defaults beside Apache's.

usage: python -m scripts.support_tables           writes the tables between their markers
       python -m scripts.support_tables --check   exits 1 when the document differs
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from processes.grpc_clients.lacks import LACKS, LIBRARIES
from rmqpull_broker.core import errors
from rmqpull_broker.core.properties import Declared, list_declared
from rmqpull_broker.server.grpc.health import HEALTH
from rmqpull_broker.server.grpc.reflection import REFLECTION
from rmqpull_broker.server.grpc.registry import EXTENSIONS, MESSAGING_HANDLERS
from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_proto import rpc
from scripts.client_scenarios import TESTS, list_scenarios
from scripts.doc_tables import table, write_or_check
from scripts.limit import Limit, amount
from scripts.limits_of_calls import LIMITS_OF_CALLS
from scripts.limits_of_clients import LIMITS_OF_CLIENTS
from scripts.limits_of_server import LIMITS_OF_SERVER
from scripts.request_codes import NOT_SERVED, REQUEST_CODES

REPOSITORY = Path(__file__).parents[1]
DOCUMENT = REPOSITORY / "docs" / "broker-support.md"
PROTOS = REPOSITORY / "proto" / "rmqpull_proto" / "rmqpull" / "v1"


class Apache(NamedTuple):
    """Whether Apache's proxy 5.5.0 serves a method (rules 5.1), and why this broker differs."""

    serves: bool
    note: str = "-"


_PULL = "pull consumers need it; it is part of the protocol, but no Apache server implements it"

APACHE = {
    "QueryRoute": Apache(True),
    "Heartbeat": Apache(True),
    "SendMessage": Apache(True),
    "QueryAssignment": Apache(True),
    "ReceiveMessage": Apache(True),
    "AckMessage": Apache(True),
    "ForwardMessageToDeadLetterQueue": Apache(True),
    "EndTransaction": Apache(True),
    "Telemetry": Apache(True),
    "NotifyClientTermination": Apache(True),
    "ChangeInvisibleDuration": Apache(True),
    "RecallMessage": Apache(True, "Apache's proxy needs `recallMessageEnable`, which is on here by default"),
    "PullMessage": Apache(False, _PULL),
    "UpdateOffset": Apache(False, _PULL),
    "GetOffset": Apache(False, _PULL),
    "QueryOffset": Apache(False, _PULL),
    "SyncLiteSubscription": Apache(True, "lite topics are not emulated"),
}

LIMITS = {**LIMITS_OF_CALLS, **LIMITS_OF_SERVER, **LIMITS_OF_CLIENTS}
"""Every limit that users can meet. The values come from the constants."""

INTERNAL = {
    "cli.commands.in_flight:COUNT_MAX": "the limit of the call that it makes",
    "server.runtime.clock_watch:DOWN_MS_MAX": "how long a restart trusts what the clock said before it",
    "core.state.stages:DROPPED_REMEMBERED_MAX": "the oldest are forgotten; a later call finds that its stage is gone",
    "server.runtime.pops:ROWS_LOOKED_AT_MAX": "the pops that may wait for other rows wake, and look themselves",
    "store.queues.gathering:MESSAGE_BYTES_MAX": "a job makes smaller chunks",
    "store.vfs:OPEN_FILES_MAX": "a cache; an evicted file is opened again",
    "core.limits:RECONSUME_TIMES_MAX": "the largest 32-bit integer; the count stops there",
    "core.popping.revival:REVIVALS_MAX": "limits one command; the next one stores the rest at once",
    "server.runtime.renewer:CHANGES_MAX": "limits one command; the next one renews the rest at once",
    "core.popping.renewals:TRIES_MAX": "tries while the log cannot store anything; then the message is redelivered",
    "core.sending.delays:DELIVERIES_MAX": "limits one command; the next one delivers the rest at once",
    "core.sending.half_messages:CHECKS_MAX": "limits one command; the next one checks the rest at once",
    "core.state.retention:PUT_AGAIN_MAX": "limits one command; the next one stores the rest again at once",
    "core.state.retention:PUT_AGAIN_BYTES_MAX": "limits one command; the next one stores the rest again at once",
    "core.filters.message_filter:COMPILED_EXPRESSIONS_MAX": "a cache; an evicted expression is compiled again",
    "core.filters.message_filter:PROPERTY_VALUES_MAX": "only how many rows are looked at in one step",
    "core.pulling.record_pieces:PIECE_ROWS_MAX": "how messages are encoded for pulls; no user sees it",
    "core.pulling.record_pieces:TAIL_ROWS_MAX": "how messages are encoded for pulls; no user sees it",
    "core.pulling.record_pieces:PULL_ROWS_MAX": "how messages are encoded for pulls; no user sees it",
    "core.pulling.record_pieces:MATCHES_MAX": "a cache; a forgotten filter is evaluated again",
    "core.pulling.standing_verdicts:VERDICTS_MAX": "a cache; a pull without a verdict is checked again",
    "core.pulling.standing_verdicts:STANDING_MS_MAX": "a cache; a pull without a verdict is checked again",
    "core.sending.queue_selection:TURNS_MAX": "topics with a remembered next queue; others start at their first queue",
    "core.sending.queue_selection:SHARES_MAX": "topics with remembered shares of their queues; others start with none",
    "server.remoting.handlers.batch_codec:PROPERTY_BYTES_MAX": "how batches are decoded; no user sees it",
    "server.grpc.connections:PENDING_CALLS_MAX": "how gRPC accepts a burst of calls; it refuses none",
    "store.queues.consume_queue:TAIL_ROWS_MAX": "how messages are stored in memory; no user sees it",
    "store.queues.chunks:CHUNK_ROWS_MAX": "how messages are stored in memory; no user sees it",
    "store.queues.chunks:CHUNK_BYTES_MAX": "how messages are stored in memory; no user sees it",
    "store.log.recovery:ROWS_TOGETHER_MAX": "how a start loads rows; no user sees it",
    "store.queues.consume_queues:SLICES_PER_BATCH_MAX": "how messages are stored in memory; no user sees it",
}
"""Constants that no user can meet, with the reasons."""

REASONS = {
    "enablePropertyFilter": "SQL92 filters work without configuration",
    "recallMessageEnable": "recalls work without configuration",
    "retentionBytes": "a small disk may be full before any message expires",
    "flushDiskType": "acknowledged data survives a power failure; without a data directory nothing is synced",
}


def _served(is_served: bool) -> str:
    return "served" if is_served else "UNIMPLEMENTED"


def standard_methods() -> str:
    """Returns every method of the standard service."""
    rows = [
        (f"`{name}`", _served(name in MESSAGING_HANDLERS), _served(APACHE[name].serves), APACHE[name].note)
        for name in rpc.MESSAGING.methods
    ]
    return table(("method", "here", "Apache's proxy", "why it differs"), rows)


def request_codes() -> str:
    """Returns every request code of RocketMQ, and whether it is served."""
    served = list_handlers()
    rows = [
        (str(code), f"`{name}`", "served" if code in served else "-", served_by, _explain(code, served_by, served))
        for code, (name, served_by) in sorted(REQUEST_CODES.items())
    ]
    return table(("code", "request", "here", "served in 5.5.0 by", "why it is not served here"), rows)


def _explain(code: int, served_by: str, served: Collection[int]) -> str:
    if code in served or served_by not in ("broker", "name server"):
        return "-"
    return NOT_SERVED[code]


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", text.replace("``", "`"), maxsplit=1)[0]


def _comments(proto: Path) -> dict[str, str]:
    """Returns the first sentence of the comment above each method."""
    found = re.findall(r"((?:^  // .*\n)+)  rpc (\w+)\(", proto.read_text(encoding="utf-8"), re.MULTILINE)
    sentences = {name: re.sub(r"\s*// ", " ", comment).strip() for comment, name in found}
    return {name: _first_sentence(text) for name, text in sentences.items()}


def extension_methods() -> str:
    """Returns every method of ``rmqpull.v1``, which Apache's servers do not have."""

    rows: list[tuple[str, ...]] = []
    for extension, (service, handlers) in EXTENSIONS.items():
        comments = _comments(PROTOS / f"{extension}.proto")
        kind = f"`{service.name.split('.')[-1]}`"
        rows += [(kind, f"`{name}`", _served(name in handlers), comments[name]) for name in service.methods]
    return table(("service", "method", "here", "what it does"), rows)


def other_methods() -> str:
    """Returns the services of gRPC itself."""
    notes = {
        HEALTH.name: ("not served", "for orchestrators; NOT_SERVING while the commit log cannot be written"),
        REFLECTION.name: ("served", "only v1alpha, which every tool supports"),
    }
    rows = [
        (
            f"`{service.name}`",
            ", ".join(f"`{name}`" for name in service.methods),
            "served",
            *notes[service.name],
        )
        for service in (HEALTH, REFLECTION)
    ]
    rows.append(("`grpc.channelz.v1.Channelz`", "all", "not served", "served", "no RocketMQ client uses it"))
    return table(("service", "methods", "here", "Apache's proxy", "note"), rows)


def refusals() -> str:
    """Returns every refusal, by name."""
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.BrokerError)]
    rows = [
        (f"`{kind.__name__}`", kind.code, str(int(kind.response_code)), _first_sentence(inspect.getdoc(kind) or ""))
        for kind in sorted(kinds, key=lambda kind: kind.__name__)
        if kind is not errors.BrokerError
    ]
    return table(("refusal", "v2 code", "remoting code", "meaning"), rows)


def limits() -> str:
    """Returns every limit, in the order of declaration."""

    def part(title: str, group: Iterable[Limit]) -> str:
        rows = [(limit.what, amount(limit.value, limit.unit), limit.beyond, limit.whose) for limit in group]
        return f"### {title}\n\n" + table(("limit", "value", "above it", "origin"), rows)

    return "\n\n".join(part(title, group) for title, group in LIMITS.items())


def deviating_properties() -> list[Declared]:
    """Properties whose default is not Apache's, by name."""
    return sorted((entry for entry in list_declared() if entry.deviation), key=lambda entry: entry.name)


def presets() -> str:
    """Properties whose default is not Apache's."""
    rows = [
        (
            f"`{entry.name}`",
            str(entry.default).lower() if isinstance(entry.default, bool) else str(entry.default),
            entry.deviation,
            REASONS[entry.name],
        )
        for entry in deviating_properties()
    ]
    return table(("property", "default", "Apache", "reason"), rows)


def client_scenarios() -> str:
    """Returns what is proved with Apache's clients of the remoting protocol."""
    return _scenarios(TESTS)


def grpc_scenarios() -> str:
    """Returns what is proved with Apache's gRPC clients."""
    return _scenarios(TESTS / "grpc")


def _scenarios(folder: Path) -> str:
    rows = [(scenario.what, f"`{scenario.module}`", f"`{scenario.test}`") for scenario in list_scenarios(folder)]
    return table(("what clients do", "proof", "test"), rows)


def grpc_lacks() -> str:
    """Returns what the libraries of gRPC clients cannot do."""
    rows = [(f"`{LIBRARIES[language]}`", f"`{what}`", reason) for (language, what), reason in LACKS.items()]
    return table(("library", "what it lacks", "reason"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "standard-methods": standard_methods,
    "request-codes": request_codes,
    "extension-methods": extension_methods,
    "other-methods": other_methods,
    "refusals": refusals,
    "limits": limits,
    "presets": presets,
    "client-scenarios": client_scenarios,
    "grpc-scenarios": grpc_scenarios,
    "grpc-lacks": grpc_lacks,
}

if __name__ == "__main__":
    write_or_check(DOCUMENT, TABLES)
