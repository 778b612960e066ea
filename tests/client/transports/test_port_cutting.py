"""Where so many bytes end, as a client asks its broker."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pytest

from rmqpull_broker.server.grpc import registry
from rmqpull_broker.server.handlers.columns import bounds
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue, Part, RangeToCut
from rmqpull_client.transports.standard.client import StandardClient
from tests.harness.served_broker import ServeBroker, ServedBroker

TEN = pa.record_batch({"body": pa.array([b"0123456789"] * 10)})
WITHOUT = "^The server at .* does not tell the sizes of messages, as options maxBytesPerTrigger and "


def queue(queue_id: int = 0, topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


@pytest.fixture
def served(serve: ServeBroker) -> ServedBroker:
    """A topic of ten messages of ten bytes in one queue."""
    return serve(batch=TEN)


def test_ranges_are_cut_or_refused(served: ServedBroker, extensions: str) -> None:
    wanted = [
        RangeToCut(queue(), 0, 10, 40),
        RangeToCut(queue(), 2, 99, 1 << 60, 1),
        RangeToCut(queue(), 0, 10, 0, 1),
        RangeToCut(queue(topic="unknown"), 0, 10, 9),
    ]
    if extensions == "none":
        with pytest.raises(OptionError, match=WITHOUT):
            served.client.cut_ranges(wanted)
        return
    assert served.client.cut_ranges(wanted) == [
        [Part(4, 40), Part(8, 40), Part(10, 20)],
        [Part(10, 80)],
        [Part(1, 10)],
        [],
    ]


def test_a_server_that_cannot_is_found_out_by_asking_for_nothing(served: ServedBroker) -> None:
    if isinstance(served.client, StandardClient):
        with pytest.raises(OptionError, match=WITHOUT):
            served.client.cut_ranges(())
    else:
        assert served.client.cut_ranges(()) == []


@pytest.mark.parametrize("extensions", ["columns"])
@pytest.mark.parametrize("parts_max", [0, 5, 10, 11])
def test_what_one_answer_does_not_hold_is_asked_for_again(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch, parts_max: int
) -> None:
    monkeypatch.setattr(bounds, "PARTS_MAX", 3)
    each = RangeToCut(queue(), 0, 10, 1, parts_max)
    ten = [Part(offset, 10) for offset in range(1, 11)]
    assert served.client.cut_ranges([each, each._replace(from_offset=8)]) == [ten[: parts_max or 10], ten[8:]]


@pytest.mark.parametrize("extensions", ["columns"])
def test_an_older_server_with_columns_is_refused_with_advice(
    serve: ServeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(cast("dict[str, object]", registry.COLUMN_HANDLERS), "CutRanges")
    with pytest.raises(OptionError, match=WITHOUT):
        serve().client.cut_ranges(())
