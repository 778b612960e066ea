"""Turns Spark's rows into messages in columns (``rmqpull_proto.columns.PUBLISH_SCHEMA``), sorted by topic."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqpull.options.sending import DROP, EXPLICIT
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.invalid_rows import InvalidRow
from pyspark_rmqpull.sink.repeats import ID_PROPERTIES
from pyspark_rmqpull.sink.schema import list_written_columns
from pyspark_rmqpull.sink.topic_parts import PartedRows, TopicRows, sort_by_topic
from pyspark_rmqpull.sink.uncarried_properties import DroppedProperties, find_rows_with_uncarried
from rmqpull_client.transports.property_rules import PropertyRules
from rmqpull_proto import columns as wire

_TYPES = {field.name: field.type for field in wire.PUBLISH_SCHEMA}
_ZLIB_LEVEL = 5  # RocketMQ's
_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "ZLIB": lambda body: zlib.compress(body, _ZLIB_LEVEL),
    "LZ4": lambda body: pa.compress(body, "lz4", asbytes=True),
    "ZSTD": lambda body: pa.compress(body, "zstd", asbytes=True),
}

_IDS = pa.array(sorted(ID_PROPERTIES))
_TEXTS = ("tags", "keys", "properties", "messageGroup", "brokerName", "topic")


class RowEncoder:
    """Turns batches into messages, as the options and the server's ``property_rules`` say.

    ``is_delayed`` says whether a topic takes delivery times. For other topics they are ignored, because all rows of the
    source have that column.
    """

    def __init__(self, options: SinkOptions, is_delayed: Callable[[str], bool], property_rules: PropertyRules) -> None:
        self._options = options
        self._written = list_written_columns(options)
        self._is_delayed = is_delayed
        self._property_rules = property_rules
        self.dropped = DroppedProperties(property_rules)

    def make_messages(self, batch: pa.RecordBatch) -> tuple[PartedRows, list[InvalidRow]]:
        """Returns the messages, sorted by topic, and the rows that cannot be messages."""
        batch, invalid = self._take_out_broken_text(batch)
        rows, topics = self._make_columns(batch), self._find_topics(batch)
        is_valid = None
        for is_invalid, explain in self._find_invalid(rows, topics):
            first_reason = is_invalid if is_valid is None else pc.and_(is_valid, is_invalid)
            invalid += [
                InvalidRow(TopicRows(self._name_topic(topics, index), rows.slice(index, 1)), explain(index))
                for index in pc.indices_nonzero(first_reason).to_pylist()
            ]
            is_valid = pc.invert(is_invalid) if is_valid is None else pc.and_not(is_valid, is_invalid)
        if is_valid is not None and not pc.all(is_valid).as_py():
            rows, topics = rows.filter(is_valid), None if topics is None else topics.filter(is_valid)
        if topics is not None:
            return self._finish(sort_by_topic(topics, rows)), invalid
        return self._finish(PartedRows.of_topic(self._name_topic(None, 0), rows)), invalid

    def _take_out_broken_text(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[InvalidRow]]:
        """Takes out rows whose text is not UTF-8: Spark's strings may hold any bytes, and Arrow cannot read them."""
        names = [name for name in _TEXTS if name in batch.schema.names and name in self._written]
        broken = {index: name for name in names for index in _find_not_utf8(batch.column(name))}
        if not broken:
            return batch, []
        topics, bodies = self._find_topics(batch), batch.column("body").cast(pa.binary())
        invalid = []
        for index, name in broken.items():
            topic = "" if name == "topic" else self._name_topic(topics, index)
            row = TopicRows(topic, pa.record_batch({"body": bodies.slice(index, 1)}))
            invalid.append(InvalidRow(row, f"its column {name} is not UTF-8"))
        return batch.take([index for index in range(batch.num_rows) if index not in broken]), invalid

    def _find_topics(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Returns the topic of each row; None if an option names that of all rows."""
        return None if self._options.topic is not None else batch.column("topic").cast(pa.string())

    def _name_topic(self, topics: pa.Array | None, index: int) -> str:
        return (self._options.topic if topics is None else topics[index].as_py()) or ""

    def _make_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = {"body": batch.column("body").cast(pa.binary())}
        names = ["tags", "properties", "messageGroup", "deliveryTimestamp", "priority"]
        names += ["brokerName", "queueId"] if self._options.queue_selector == EXPLICIT else []
        for name in names:
            if name in batch.schema.names:
                arrays[name] = batch.column(name).cast(_TYPES[name])
        if "keys" in batch.schema.names:
            arrays["keys"] = _make_keys(batch.column("keys"))
        if "properties" in arrays:
            arrays["properties"] = _remove_ids(arrays["properties"])
            if self._options.invalid_properties == DROP:
                arrays["properties"] = self.dropped.drop_uncarried(arrays["properties"])
        return pa.RecordBatch.from_pydict(arrays)

    def _find_invalid(
        self, rows: pa.RecordBatch, topics: pa.Array | None
    ) -> Iterator[tuple[pa.Array, Callable[[int], str]]]:
        """For each reason that a row may have, which rows are invalid, and the reason by the row's index."""
        body, limit = rows.column("body"), self._options.max_message_size
        lengths = pc.fill_null(pc.binary_length(body), 0)
        if body.null_count:
            yield body.is_null(), lambda _: "its body is null"
        found = pc.min_max(lengths)
        if found["min"].as_py() == 0:
            yield pc.equal(lengths, 0), lambda _: "its body is empty"
        if (found["max"].as_py() or 0) > limit:
            yield pc.greater(lengths, limit), lambda _: f"its body has more than maxMessageSize={limit} bytes"
        if topics is not None:
            yield pc.fill_null(pc.equal(pc.binary_length(topics), 0), True), lambda _: "its topic is null"
        if "priority" in rows.schema.names:
            yield pc.fill_null(pc.less(rows.column("priority"), 0), False), lambda _: "its priority is below 0"
        if "keys" in rows.schema.names and rows.column("keys").flatten().null_count:
            yield _match(rows.column("keys"), lambda keys: None in keys), lambda _: "one of its keys is null"
        if "properties" in rows.schema.names and self._options.invalid_properties != DROP:
            yield from find_rows_with_uncarried(rows.column("properties"), self._property_rules)

    def _finish(self, parted: PartedRows) -> PartedRows:
        rows = parted.rows
        if "deliveryTimestamp" in rows.schema.names and rows.column("deliveryTimestamp").null_count < rows.num_rows:
            # The column stays even if it has no time: the id of a row must not depend on the topics of its batch.
            is_delayed = parted.spread([self._is_delayed(topic) for topic, _ in parted.parts], pa.bool_())
            index, times = rows.schema.get_field_index("deliveryTimestamp"), rows.column("deliveryTimestamp")
            rows = rows.set_column(index, "deliveryTimestamp", pc.if_else(is_delayed, times, None))
        threshold = self._options.compress_msg_body_over_howmuch
        if threshold and (pc.max(pc.binary_length(rows.column("body"))).as_py() or 0) >= threshold:
            rows = _compress_bodies(rows, threshold, self._options.compress_type)
        return PartedRows(parted.parts, rows)


def _make_keys(keys: pa.Array) -> pa.Array:
    """Keys as a list. A text is split at blanks, as RocketMQ's consumers do."""
    if not pa.types.is_list(keys.type) and not pa.types.is_large_list(keys.type):
        trimmed = pc.utf8_trim_whitespace(keys)
        # Up to Arrow 21 at least, if_else with a null returns wrong texts for a slice.
        given = pc.replace_with_mask(trimmed, pc.equal(pc.binary_length(trimmed), 0), pa.scalar(None, trimmed.type))
        keys = pc.utf8_split_whitespace(given)
    return keys.cast(wire.KEYS)


def _remove_ids(properties: pa.MapArray) -> pa.Array:
    """Removes the ids of an earlier write, which rows of the source may have. This write adds its own."""
    if not pc.any(pc.is_in(wire.find_names(properties), value_set=_IDS)).as_py():
        return properties
    names, _, _ = wire.list_entries(properties)
    return wire.keep_entries(properties, pc.invert(pc.is_in(names, value_set=_IDS)))


def _match(column: pa.Array, matches: Callable[[Any], bool]) -> pa.Array:
    return pa.array([value is not None and matches(value) for value in column.to_pylist()], pa.bool_())


def _find_not_utf8(column: pa.Array, first: int = 0) -> list[int]:
    """Finds the rows whose text is not UTF-8; ``first`` is the number of the column's first row."""
    if _is_ascii(column):
        return []
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return [first]
        middle = len(column) // 2
        # Copies, because validating a slice of lists would also look at values outside of it.
        halves = (range(middle), 0), (range(middle, len(column)), middle)
        return [row for rows, start in halves for row in _find_not_utf8(column.take(pa.array(rows)), first + start)]
    return []


def _is_ascii(column: pa.Array) -> bool:
    """Whether all texts of a column have only characters of ASCII, which is found faster than that they are UTF-8."""
    kind = column.type
    if pa.types.is_map(kind):
        return _is_ascii(column.keys) and _is_ascii(column.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_ascii(column.values)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return False
    data = column.buffers()[2]
    if data is None or not data.size:
        return True
    return bool(pc.max(pa.Array.from_buffers(pa.uint8(), data.size, [None, data], 0)).as_py() < 0x80)


def _compress_bodies(rows: pa.RecordBatch, threshold: int, codec: str) -> pa.RecordBatch:
    compress, encoding, identity = _CODECS[codec], wire.BODY_ENCODINGS[codec], wire.BODY_ENCODINGS["IDENTITY"]
    bodies, encodings = [], []
    for body in rows.column("body").to_pylist():
        is_large = len(body) >= threshold
        bodies.append(compress(body) if is_large else body)
        encodings.append(encoding if is_large else identity)
    index = rows.schema.get_field_index("body")
    compressed = rows.set_column(index, "body", pa.array(bodies, pa.binary()))
    return compressed.append_column("bodyEncoding", pa.array(encodings, pa.int32()))
