"""Columns by name, and bodies that producers have compressed."""

from __future__ import annotations

import gzip
import zlib

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import Row

from rmqpull_broker.core.model import BodyEncoding, Message
from tests.harness.server_kinds import needs
from tests.harness.spark_queries import Queries, Topic

TEXT = b"hello " * 50


def packed(body: bytes) -> Message:
    """A message whose producer says that it has compressed the body."""
    return Message(body, "", body_encoding=BodyEncoding.GZIP)


def test_only_named_columns_are_read(queries: Queries, topic: Topic) -> None:
    topic.send(b"one")
    assert queries.run(queries.stream(topic, columns="body, queueOffset")).rows == [
        Row(body=bytearray(b"one"), queueOffset=0)
    ]


def test_an_unknown_column_is_refused_when_the_stream_is_declared(queries: Queries, topic: Topic) -> None:
    with pytest.raises(AnalysisException, match=r"OptionError: Option columns names 'value'"):
        queries.stream(topic, columns="body,value")


def test_compressed_bodies_are_unpacked(queries: Queries, topic: Topic) -> None:
    topic.send(packed(zlib.compress(TEXT)), TEXT)
    assert queries.run(queries.stream(topic, columns="body")).bodies == [TEXT] * 2


@needs("gzip")
def test_bodies_from_clients_that_use_gzip_are_unpacked(queries: Queries, topic: Topic) -> None:
    topic.send(packed(gzip.compress(TEXT)))
    assert queries.run(queries.stream(topic, columns="body")).bodies == [TEXT]


def test_a_damaged_body_ends_the_query_or_is_returned_compressed(queries: Queries, topic: Topic) -> None:
    topic.send(packed(b"damaged"))
    with pytest.raises(StreamingQueryException, match=r"BodyDamaged: .* at offset 0 of queue topic-"):
        queries.run(queries.stream(topic))
    assert queries.run(queries.stream(topic, bodies="rawIfDamaged")).bodies == [b"damaged"]


def test_bodies_may_stay_packed(queries: Queries, topic: Topic) -> None:
    topic.send(packed(zlib.compress(TEXT)))
    assert queries.run(queries.stream(topic, bodies="raw")).bodies == [zlib.compress(TEXT)]
