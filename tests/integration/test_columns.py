"""Columns by name, and bodies that producers have compressed."""

from __future__ import annotations

import gzip
import zlib

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import Row

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.spark_queries import Queries, Topic

TEXT = b"hello " * 50


def test_only_named_columns_are_read(queries: Queries, topic: Topic) -> None:
    topic.send(b"one")
    assert queries.run(queries.stream(topic, columns="body, queueOffset")).rows == [
        Row(body=bytearray(b"one"), queueOffset=0)
    ]


def test_an_unknown_column_is_refused_when_the_stream_is_declared(queries: Queries, topic: Topic) -> None:
    with pytest.raises(AnalysisException, match=r"OptionError: Option columns names 'value'"):
        queries.stream(topic, columns="body,value")


def test_compressed_bodies_are_unpacked(queries: Queries, topic: Topic) -> None:
    topic.send(gzip.compress(TEXT), zlib.compress(TEXT), body_encoding=v2.Encoding.GZIP)
    topic.send(TEXT)
    assert queries.run(queries.stream(topic, columns="body")).bodies == [TEXT] * 3


def test_a_damaged_body_ends_the_query_or_is_returned_compressed(queries: Queries, topic: Topic) -> None:
    topic.send(b"damaged", body_encoding=v2.Encoding.GZIP)
    with pytest.raises(StreamingQueryException, match=r"BodyDamaged: .* at offset 0 of queue topic-"):
        queries.run(queries.stream(topic))
    assert queries.run(queries.stream(topic, bodies="rawIfDamaged")).bodies == [b"damaged"]


def test_bodies_may_stay_packed(queries: Queries, topic: Topic) -> None:
    topic.send(zlib.compress(TEXT), body_encoding=v2.Encoding.GZIP)
    assert queries.run(queries.stream(topic, bodies="raw")).bodies == [zlib.compress(TEXT)]
