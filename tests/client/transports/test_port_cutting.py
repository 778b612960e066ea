"""Ranges are cut by bytes if the server tells sizes."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pytest

from rmqpull_broker.server.grpc import registry
from rmqpull_broker.server.grpc.handlers.columns import bounds
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue, Part, RangeToCut
from tests.harness.served_broker import ServeBroker, ServedBroker

TEN = pa.record_batch({"body": pa.array([b"0123456789"] * 10)})
WITHOUT = "^The (server|cluster) at .* does not report the sizes of messages, as options maxBytesPerTrigger and "


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
    if extensions != "columns":
        with pytest.raises(OptionError, match=WITHOUT):
            served.client.cut_ranges(wanted)
        return
    assert served.client.cut_ranges(wanted) == [
        [Part(4, 40), Part(8, 40), Part(10, 20)],
        [Part(10, 80)],
        [Part(1, 10)],
        [],
    ]


def test_the_abilities_say_whether_the_server_tells_sizes(served: ServedBroker, extensions: str) -> None:
    lack = served.client.abilities.no_sizes
    if extensions == "columns":
        assert (lack, served.client.cut_ranges(())) == (None, [])
        return
    with pytest.raises(OptionError, match=WITHOUT) as refusal:
        served.client.cut_ranges(())
    assert str(refusal.value) == lack


@pytest.mark.parametrize("extensions", ["columns"])
@pytest.mark.parametrize("parts_max", [0, 5, 10, 11])
def test_parts_that_do_not_fit_into_a_response_are_requested_again(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch, parts_max: int
) -> None:
    monkeypatch.setattr(bounds, "PARTS_MAX", 3)
    each = RangeToCut(queue(), 0, 10, 1, parts_max)
    ten = [Part(offset, 10) for offset in range(1, 11)]
    assert served.client.cut_ranges([each, each._replace(from_offset=8)]) == [ten[: parts_max or 10], ten[8:]]


@pytest.mark.parametrize("extensions", ["columns"])
def test_an_older_server_with_columns_does_not_tell_sizes(serve: ServeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(cast("dict[str, object]", registry.COLUMN_HANDLERS), "CutRanges")
    client = serve().client
    with pytest.raises(OptionError, match=WITHOUT) as refusal:
        client.cut_ranges(())
    assert client.abilities.no_sizes == str(refusal.value)


@pytest.mark.parametrize("extensions", ["columns"])
def test_a_client_asks_its_server_for_abilities_once(served: ServedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    before = served.client.abilities
    monkeypatch.delitem(cast("dict[str, object]", registry.COLUMN_HANDLERS), "CutRanges")
    assert served.client.abilities is before
