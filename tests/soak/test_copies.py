"""The copies of the sink are read from the broker's log: in order, uncompressed, and with open stages."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa

from rmqpull_broker.core.model import BodyEncoding, Message
from rmqpull_broker.core.sending.publishing import Published
from rmqpull_broker.core.sending.stage_commands import drop, stage
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.testing import running_broker
from soak.copies import open_stages, rows
from soak.ledger import digest_of
from tests.harness.core import check_batch


def copy_of(offset: int, body: bytes, encoding: BodyEncoding, **more: str) -> Message:
    place = {"topic": "orders", "brokerName": "broker-a", "queueId": "1", "queueOffset": str(offset), "msgId": "m"}
    return Message(body, "", "red", ("key",), {**place, **more}, body_encoding=encoding)


def test_rows_are_the_same_however_the_sink_has_compressed_them(tmp_path: Path) -> None:
    with running_broker({"copied": 1, "other": 1}, data_dir=str(tmp_path)) as broker:
        broker.send("other", b"x")
        broker.send("copied", copy_of(4, b"a", BodyEncoding.IDENTITY, rmqpullId="1"))
        broker.send("copied", copy_of(5, zlib.compress(b"b"), BodyEncoding.ZLIB))
        broker.send("copied", copy_of(5, zlib.compress(b"b"), BodyEncoding.GZIP))
    found = list(rows(tmp_path, {"copied"}))
    assert [(row.offset, row.digest) for row, _ in found] == [(4, digest_of(b"a")), *[(5, digest_of(b"b"))] * 2]
    assert {row.queue for row, _ in found} == {("orders", "broker-a", 1)}
    assert [row_id for _, row_id in found] == ["1", "", ""]


def test_rows_of_several_topics_are_found_and_others_are_not(tmp_path: Path) -> None:
    with running_broker({"copied-0": 1, "copied-1": 1, "other": 1}, data_dir=str(tmp_path)) as broker:
        for number, topic in enumerate(("copied-0", "other", "copied-1")):
            broker.send(topic, copy_of(number, b"a", BodyEncoding.IDENTITY))
    found = [(row.file, row.offset) for row, _ in rows(tmp_path, {"copied-0", "copied-1"})]
    assert found == [("copied-0/0", 0), ("copied-1/0", 2)]


def test_stages_are_open_until_they_end(tmp_path: Path) -> None:
    batch = TransactionId("query", 1)
    published = Published("copied", pa.record_batch({"body": [b"x"]}), "client")
    with running_broker({"copied": 1}, data_dir=str(tmp_path)) as broker:
        sender = broker._server.sender
        checked = check_batch(sender, published, 0)
        broker.change(lambda draft: stage(draft, sender, batch, "a", 0, checked, 0))
        assert open_stages(tmp_path) == ["a"]
        broker.change(lambda draft: drop(draft, batch))
        assert open_stages(tmp_path) == []
