"""Messages of Apache's clients in several languages: ``tests/clients/record_messages.py`` recorded them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from processes.apache.oracle import to_bytes

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "integration" / "recorded_messages.json").read_text(encoding="utf-8")
)
CLIENTS = sorted(RECORDED["clients"])


@dataclass(frozen=True)
class RecordedPull:
    """The body of a response to a pull, and the rows that it has according to what was sent and to Apache's decoder."""

    body: bytes
    rows: list[dict[str, Any]]


def read_recorded(client: str) -> Iterator[RecordedPull]:
    """Returns what one client has sent: to a topic of the type NORMAL, and to one of the type FIFO."""
    recorded = RECORDED["clients"][client]
    rows = map(_make_row, RECORDED["sent"], recorded["decoded"])
    for body, count in zip(recorded["stored"], (len(RECORDED["sent"]) - 1, 1), strict=True):
        yield RecordedPull(to_bytes(body), list(islice(rows, count)))


def _make_row(sent: dict[str, Any], decoded: dict[str, Any]) -> dict[str, Any]:
    properties = decoded["properties"]
    assert to_bytes(decoded["body"]) == sent["body"].encode()
    return {
        "msgId": decoded["msgId"],
        "body": to_bytes(decoded["body"]),
        "tags": properties.get("TAGS"),
        "keys": properties["KEYS"].split() if "KEYS" in properties else None,
        "messageGroup": properties.get("__SHARDINGKEY"),
        "properties": sent.get("properties", {}),
        "bornTimestamp": decoded["bornTimestamp"],
        "reconsumeTimes": decoded["reconsumeTimes"],
    }
