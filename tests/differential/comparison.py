"""What may differ between the answers of two servers, and the comparison of all else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import Serialization
from rmqpull_proto.remoting.json_dialect import read_json
from tests.differential.records import read_records
from tests.differential.runner import Answer
from tests.differential.steps import OWN, Step

_RECORDS = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.QUERY_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
)
_POPS = (RequestCode.POP_MESSAGE, RequestCode.PEEK_MESSAGE)
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}:\d+|\b127\.0\.0\.1\b")
_EXCEPTION = re.compile(r"[\w.$]+\.\w*(?:Exception|Error)\b")
_MADE_ID = re.compile(r"[0-9A-F]{32,56}")
_BAD_FIELD = re.compile(r"field \w+ is (missing|'.*') in \w+Header(V2)?, expected ")
_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
_FAR_AWAY_MS = 9_000_000_000_000_000
_MISSING = "(missing)"
_REVIVE_QUEUES = 8


class Difference(NamedTuple):
    """A value that is not the same: ``fields.offset``, ``body.0.topic``."""

    path: str
    emulator: Any
    apache: Any


class Tolerance(NamedTuple):
    """Values that may differ: where, and why. Both servers have the value, or both do not."""

    path: str
    why: str
    codes: tuple[int, ...] = ()
    """The requests; all if empty."""
    holds: Callable[[Step, Any, Any], bool] = lambda _, emulator, apache: _MISSING not in (emulator, apache)
    """Whether this is the difference that is meant."""


def _is_exception(step: Step, emulator: Any, apache: Any) -> bool:
    return isinstance(apache, str) and _EXCEPTION.match(apache) is not None


def _are_made_ids(step: Step, emulator: Any, apache: Any) -> bool:
    return all(isinstance(one, str) and _MADE_ID.fullmatch(one) for one in (emulator, apache))


def _are_times(step: Step, emulator: Any, apache: Any) -> bool:
    return all(isinstance(one, str) and one.isdecimal() for one in (emulator, apache))


def _are_turns(step: Step, emulator: Any, apache: Any) -> bool:
    return _are_times(step, emulator, apache) and all(int(one) < _REVIVE_QUEUES for one in (emulator, apache))


def _are_receipts(step: Step, emulator: Any, apache: Any) -> bool:
    if _MISSING in (emulator, apache):
        return False
    (mine, theirs) = (one.split(" ") for one in (emulator, apache))
    return all(mine[at] == theirs[at] for at in (0, 2, 4, 5, 6, 7)) and len(mine) == len(theirs)


def _is_dropped(step: Step, emulator: Any, apache: Any) -> bool:
    return bool(emulator == _MISSING)


def _is_added(step: Step, emulator: Any, apache: Any) -> bool:
    """Whether a batch has none of its own, or one that the generator sends: the emulator keeps none of those."""
    return apache in (_MISSING, "Other", "Mars", "false")


def _is_far_away(step: Step, emulator: Any, apache: Any) -> bool:
    return all(isinstance(one, int) for one in (emulator, apache)) and abs(apache) > abs(emulator) > _FAR_AWAY_MS


def _are_numbers(step: Step, emulator: Any, apache: Any) -> bool:
    return all(isinstance(one, (int, float)) for one in (emulator, apache))


def _waits(step: Step, emulator: Any, apache: Any) -> bool:
    properties = step.fields.get("i", step.fields.get("properties", ""))
    return any(name in properties for name in ("DELAY", "TIMER_", "TRAN_MSG"))


TOLERATED = (
    Tolerance("remark", "the text of a Java exception", holds=_is_exception),
    Tolerance("fields.msgId", "it contains the broker's address and a physical offset"),
    Tolerance("fields.transactionId", "an id that the broker gave to the message", holds=_are_made_ids),
    Tolerance("body.*.properties.UNIQ_KEY", "an id that the broker gave to the message", holds=_are_made_ids),
    Tolerance("fields.queueOffset", "an offset in a queue of the system, which all topics share", holds=_waits),
    Tolerance("body.*.properties.__transactionId__", "an id that the broker gave to the message", holds=_are_made_ids),
    Tolerance("body.*.properties.ORIGIN_MESSAGE_ID", "it is an id of a broker", holds=_are_made_ids),
    Tolerance("body.*.properties.POP_CK", "no message keeps a place in another broker", holds=_is_dropped),
    *(
        Tolerance(f"body.*.properties.{name}", "a batch has them as a single message has", holds=_is_added)
        for name in ("CLUSTER", "MSG_REGION", "TRACE_ON")
    ),
    Tolerance("body.*.bornTimestamp", "a time that no column can have", holds=_is_far_away),
    Tolerance("body.offsetTable.*Timestamp", "a time", holds=_are_numbers),
    Tolerance("body.*Tps", "messages in a second", holds=_are_numbers),
    Tolerance("body.groupList.*", "a real broker names the topic", (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,)),
    Tolerance("body.offsetTable.*pullOffset", "the broker does not count what was pulled", holds=_are_numbers),
    Tolerance("fields.recallHandle", "it contains an id and a time"),
    Tolerance("body.*.halfOffset", "the checks of Apache's broker store half messages again", holds=_are_numbers),
    Tolerance("body.*.physicalOffset", "files are not laid out as Apache's"),
    Tolerance("body.*.preparedTransactionOffset", "it is a physical offset"),
    Tolerance("body.*.storeTimestamp", "a time"),
    Tolerance("fields.popTime", "a time", holds=_are_times),
    Tolerance("body.*.properties.1ST_POP_TIME", "a time", holds=_are_times),
    Tolerance("body.*.properties.POP_CK", "it contains a time and the turn of a revive queue", holds=_are_receipts),
    Tolerance("fields.reviveQid", "they take turns, of all groups", holds=_are_turns),
    Tolerance("fields.invisibleTime", "a time", (RequestCode.CHANGE_MESSAGE_INVISIBLETIME,), holds=_are_times),
    Tolerance("fields.timestamp", "a time", (RequestCode.GET_EARLIEST_MSG_STORETIME,), holds=_are_times),
)
"""All that may differ."""


def compare(step: Step, emulator: Answer, apache: Answer, own: str) -> list[Difference]:
    """Returns the differences of two answers to one request that no tolerance covers."""
    mine, theirs = (_flatten(step, answer, own) for answer in (emulator, apache))
    paths = [*theirs, *(path for path in mine if path not in theirs)]
    found = (Difference(path, mine.get(path, _MISSING), theirs.get(path, _MISSING)) for path in paths)
    return [one for one in found if one.emulator != one.apache and not is_tolerated(step, one)]


def ends_play(answer: Answer) -> bool:
    """Whether the emulator has refused a request for its header. Then the servers may differ from here on.

    Apache's broker reads a field that is missing or not a number as nothing. It fails when it uses the field, if it
    does, and not always before it has changed something. No client sends such requests.
    """
    return answer.code == ResponseCode.SYSTEM_ERROR and _BAD_FIELD.match(answer.remark or "") is not None


def is_tolerated(step: Step, difference: Difference) -> bool:
    """Whether a row of the table covers a difference."""
    return any(
        fnmatchcase(difference.path, row.path)
        and (not row.codes or step.code in row.codes)
        and row.holds(step, difference.emulator, difference.apache)
        for row in TOLERATED
    )


def _flatten(step: Step, answer: Answer, own: str) -> dict[str, Any]:
    body = _read_body(step, answer)
    # A binary header cannot tell an empty text from none. Apache's broker answers with JSON in any case.
    remark = answer.remark or (None if step.serialization is Serialization.BINARY else answer.remark)
    whole = {
        "end": answer.end,
        "code": answer.code,
        "remark": remark,
        "fields": _read_fields(step, answer),
        "body": body,
        "told": answer.told,
    }
    return dict(_walk("", whole, own))


def _read_fields(step: Step, answer: Answer) -> Mapping[str, str]:
    """Returns the fields. A pop of all queues begins with a random one, so entries of queues are in order here."""
    if step.code not in _POPS or not step.fields.get("queueId", "-1").startswith("-"):
        return dict(answer.fields)
    names = ("startOffsetInfo", "msgOffsetInfo", "orderCountInfo")
    return {name: ";".join(sorted(text.split(";"))) if name in names else text for name, text in answer.fields.items()}


def _read_body(step: Step, answer: Answer) -> Any:
    if step.code in _RECORDS and answer.code == 0:
        records = read_records(answer.body)
        if step.code in _POPS:
            records.sort(key=lambda one: (one["topic"], one["queueId"], one["queueOffset"]))
        return [_name_offset(record) for record in records]
    return read_json(answer.body) if answer.body[:1] in (b"{", b"[") else answer.body


def _name_offset(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a record in which the offset of a half message has a name of its own."""
    names = {"queueOffset": "halfOffset"} if record["topic"] == _HALF_TOPIC else {}
    return {names.get(name, name): value for name, value in record.items()}


def _walk(path: str, value: Any, own: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in sorted(value.items()):
            yield from _walk(f"{path}.{_generalize(key, own)}".lstrip("."), inner, own)
    elif isinstance(value, list):
        yield f"{path}.length", len(value)
        # Records have an order. Java's sets, which are lists here, have none.
        are_records = any(isinstance(one, Mapping) and "physicalOffset" in one for one in value)
        for index, inner in enumerate(value if are_records else sorted(value, key=repr)):
            yield from _walk(f"{path}.{index}", inner, own)
    else:
        yield path, _generalize(value, own)


def _generalize(value: Any, own: str) -> Any:
    """Returns a value without the names and the addresses of one run."""
    if isinstance(value, bytes):
        return value.replace(own.encode(), OWN.encode())
    return _ADDRESS.sub("ADDRESS", value.replace(own, OWN)) if isinstance(value, str) else value
