"""The table of pull answers in the documentation is the one that the broker reads."""

from __future__ import annotations

import re
from pathlib import Path

from rmqpull_broker.core.pulling.answers import CLIENT_STATUSES, PULL_ANSWERS, PullAnswer, PullStatus
from rmqpull_broker.core.pulling.column_pull import PARKING_STATUSES
from rmqpull_broker.core.pulling.message_pull import CONSUME_QUEUE_FILE_ENTRIES, IN_MEMORY, SCAN_ENTRIES
from rmqpull_proto.remoting.codes import ResponseCode
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

DOCUMENT = Path(__file__).parents[2] / "docs" / "broker-support.md"
HEAD = ("result of the store", "at offset", "remoting code", "client's PullStatus", "v2", "rmqpull.v1", "parks")


def line(answer: PullAnswer) -> tuple[str, ...]:
    status, offset, response = answer
    client = CLIENT_STATUSES[response]
    parks = "-"
    if response is ResponseCode.PULL_NOT_FOUND:
        parks = "both" if status in PARKING_STATUSES else "v2"
    is_refused = status.name == "NO_MATCHED_LOGIC_QUEUE"
    standard = "refused: BAD_REQUEST" if is_refused else f"{client.v2_code}, `{status.name}`"
    return (
        f"`{status.name}`",
        offset,
        f"{response.value} {response.name}",
        client.pull_status,
        standard,
        f"`{status.name}`",
        "-" if is_refused else parks,
    )


def section() -> str:
    found = re.search(r"<!-- pull-answers -->\n(.*)<!-- /pull-answers -->", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found, f"{DOCUMENT} has no section pull-answers"
    return found[1]


def test_the_table_in_the_documentation_is_up_to_date() -> None:
    rows = [HEAD, ("---",) * len(HEAD), *map(line, PULL_ANSWERS)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    assert table in section(), f"{DOCUMENT.name} must hold:\n{table}"


def test_the_limits_in_the_documentation_are_those_of_the_broker() -> None:
    text = " ".join(section().split())
    for words in (
        f"{IN_MEMORY.message_count} messages",
        f"{IN_MEMORY.byte_count // 1024} KiB",
        f"{SCAN_ENTRIES} messages",
        f"{CONSUME_QUEUE_FILE_ENTRIES:,} entries",
    ):
        assert words in text


def test_every_status_has_its_name_on_the_wire() -> None:
    assert set(v1.PullStatus.keys()) == {status.name for status in PullStatus} | {"PULL_STATUS_UNSPECIFIED"}
