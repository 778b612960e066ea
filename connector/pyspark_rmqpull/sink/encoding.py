"""Rows of Spark as messages in columns: ``rmqpull_proto.columns.PUBLISH_SCHEMA``, topic by topic."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqpull.options.sending import EXPLICIT
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.repeats import ID_PROPERTIES
from pyspark_rmqpull.sink.topic_parts import PartedRows, TopicRows, sorted_by_topic
from rmqpull_proto import columns as wire

_ZLIB_LEVEL = 5  # RocketMQ's
_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "ZLIB": lambda body: zlib.compress(body, _ZLIB_LEVEL),
    "LZ4": lambda body: pa.compress(body, "lz4", asbytes=True),
    "ZSTD": lambda body: pa.compress(body, "zstd", asbytes=True),
}

_TEXTS = ("tags", "keys", "properties", "messageGroup", "brokerName", "topic")


class InvalidRow(NamedTuple):
    """A row that is no message, as it came, and why."""

    row: TopicRows
    reason: str


class RowEncoder:
    """Turns batches into messages, as the options say.

    ``is_delayed`` tells whether a topic takes delivery times: a row of the source has one wherever it came from.
    """

    def __init__(self, options: SinkOptions, is_delayed: Callable[[str], bool]) -> None:
        self._options = options
        self._is_delayed = is_delayed

    def encode(self, batch: pa.RecordBatch) -> tuple[PartedRows, list[InvalidRow]]:
        """The messages by topic, in the order in which topics come first, and what cannot be a message."""
        batch, invalid = self._with_text_alone(batch)
        rows, topics = self._columns(batch), self._topics(batch)
        faults = self._faults(rows, topics)
        is_sound = pa.repeat(True, batch.num_rows)
        for fault, reason in faults:
            where = pc.and_(is_sound, fault)
            invalid += [
                InvalidRow(TopicRows(topics[index].as_py() or "", rows.slice(index, 1)), reason)
                for index in pc.indices_nonzero(where).to_pylist()
            ]
            is_sound = pc.and_not(is_sound, fault)
        if pc.all(is_sound).as_py() is False:
            rows, topics = rows.filter(is_sound), topics.filter(is_sound)
        return self._finished(sorted_by_topic(topics, rows)), invalid

    def _with_text_alone(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[InvalidRow]]:
        """Takes out rows with text that is not UTF-8, which Spark's strings need not be and nothing here could read."""
        names = [name for name in _TEXTS if name in batch.schema.names and self._counts(name)]
        broken = {index: name for name in names for index in _not_utf8(batch.column(name))}
        if not broken:
            return batch, []
        topics, bodies = self._topics(batch), batch.column("body").cast(pa.binary())
        invalid = []
        for index, name in broken.items():
            topic = None if name == "topic" else topics[index].as_py()
            row = TopicRows(topic or "", pa.record_batch({"body": bodies.slice(index, 1)}))
            invalid.append(InvalidRow(row, f"its {name} is not UTF-8"))
        return batch.take([index for index in range(batch.num_rows) if index not in broken]), invalid

    def _counts(self, name: str) -> bool:
        """Whether what stands in a column means anything."""
        if name == "topic":
            return self._options.topic is None
        return name != "brokerName" or self._options.queue_selector == EXPLICIT

    def _topics(self, batch: pa.RecordBatch) -> pa.Array:
        if self._options.topic is not None:
            return pa.repeat(self._options.topic, batch.num_rows)
        return batch.column("topic").cast(pa.string())

    def _columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = {"body": batch.column("body").cast(pa.binary())}
        names = ["tags", "properties", "messageGroup", "deliveryTimestamp"]
        names += ["brokerName", "queueId"] if self._options.queue_selector == EXPLICIT else []
        for name in names:
            if name in batch.schema.names:
                arrays[name] = batch.column(name).cast(wire.PUBLISH_SCHEMA.field(name).type)
        if "keys" in batch.schema.names:
            arrays["keys"] = _keys(batch.column("keys"))
        if "properties" in arrays:
            arrays["properties"] = _without_ids(arrays["properties"])
        return pa.RecordBatch.from_pydict(arrays)

    def _faults(self, rows: pa.RecordBatch, topics: pa.Array) -> Iterator[tuple[pa.Array, str]]:
        body, limit = rows.column("body"), self._options.max_message_size
        lengths = pc.fill_null(pc.binary_length(body), 0)
        yield body.is_null(), "its body is null"
        yield pc.equal(lengths, 0), "its body is empty"
        yield pc.greater(lengths, limit), f"its body has more than maxMessageSize={limit} bytes"
        yield pc.fill_null(pc.equal(pc.binary_length(topics), 0), True), "its topic is null"
        if "keys" in rows.schema.names and rows.column("keys").flatten().null_count:
            yield _where(rows.column("keys"), lambda keys: None in keys), "a key of it is null"
        if "properties" in rows.schema.names and rows.column("properties").items.null_count:
            yield _where(rows.column("properties"), lambda own: None in dict(own).values()), "a property of it is null"

    def _finished(self, parted: PartedRows) -> PartedRows:
        rows = parted.rows
        if "deliveryTimestamp" in rows.schema.names:
            # The column stays where it has no time: what a row is must not depend on the topics of its batch.
            is_delayed = parted.spread([self._is_delayed(topic) for topic, _ in parted.parts], pa.bool_())
            place, times = rows.schema.get_field_index("deliveryTimestamp"), rows.column("deliveryTimestamp")
            rows = rows.set_column(place, "deliveryTimestamp", pc.if_else(is_delayed, times, None))
        threshold = self._options.compress_msg_body_over_howmuch
        if threshold and (pc.max(pc.binary_length(rows.column("body"))).as_py() or 0) >= threshold:
            rows = _compressed(rows, threshold, self._options.compress_type)
        return PartedRows(parted.parts, rows)


def _keys(keys: pa.Array) -> pa.Array:
    """Keys as a list; one text is split where it is blank, as RocketMQ's consumers do."""
    if not pa.types.is_list(keys.type) and not pa.types.is_large_list(keys.type):
        trimmed = pc.utf8_trim_whitespace(keys)
        given = pc.if_else(pc.equal(pc.binary_length(trimmed), 0), pa.scalar(None, trimmed.type), trimmed)
        keys = pc.utf8_split_whitespace(given)
    return keys.cast(wire.KEYS)


def _without_ids(properties: pa.MapArray) -> pa.Array:
    """Properties without the ids of an earlier write, which a row has that was read: this write gives its own."""
    if not pc.any(pc.is_in(properties.keys, value_set=pa.array(sorted(ID_PROPERTIES)))).as_py():
        return properties
    own = [row and [entry for entry in row if entry[0] not in ID_PROPERTIES] for row in properties.to_pylist()]
    return pa.array(own, wire.PROPERTIES)


def _where(column: pa.Array, is_so: Callable[[Any], bool]) -> pa.Array:
    return pa.array([value is not None and is_so(value) for value in column.to_pylist()], pa.bool_())


def _not_utf8(column: pa.Array, first: int = 0) -> list[int]:
    """The rows in which a column of text is not UTF-8; ``first`` is the number of its first row."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return [first]
        middle = len(column) // 2
        # Copies, since validating a slice of lists would look at what lies around it.
        halves = (range(middle), 0), (range(middle, len(column)), middle)
        return [row for rows, at in halves for row in _not_utf8(column.take(pa.array(rows)), first + at)]
    return []


def plain_rows(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows as dictionaries; times in microseconds since the epoch, which may be beyond Python's own."""
    arrays = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in rows.columns]
    values = zip(*(array.to_pylist() for array in arrays), strict=True)
    return (dict(zip(rows.schema.names, row, strict=True)) for row in values)


def _compressed(rows: pa.RecordBatch, threshold: int, codec: str) -> pa.RecordBatch:
    compress, encoding, identity = _CODECS[codec], wire.BODY_ENCODINGS[codec], wire.BODY_ENCODINGS["IDENTITY"]
    bodies, encodings = [], []
    for body in rows.column("body").to_pylist():
        is_large = len(body) >= threshold
        bodies.append(compress(body) if is_large else body)
        encodings.append(encoding if is_large else identity)
    place = rows.schema.get_field_index("body")
    packed = rows.set_column(place, "body", pa.array(bodies, pa.binary()))
    return packed.append_column("bodyEncoding", pa.array(encodings, pa.int32()))
