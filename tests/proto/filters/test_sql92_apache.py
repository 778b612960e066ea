"""A real broker compiles the expressions that our grammar reads, and refuses those that it refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from processes.apache.cluster import ApacheCluster
from rmqpull_client.connection import Connection
from rmqpull_client.errors import FilterRefused
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.network.channel import RemotingChannel, get_remoting_channel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_proto.filters.sql92 import MalformedExpression
from rmqpull_proto.filters.sql92_grammar import parse
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand

_VALUES = "a b_$1 5 -5 7L 1.5 1e3 0.0 'x' 'it''s' TRUE NULL 007 and"
VALUES = st.sampled_from(_VALUES.split())
LISTS = st.sampled_from(["IN ('x')", "NOT IN ('x','y')", "IN ()", "IN ('x' 'y')", "IN (5)"])
COMPARISONS = st.sampled_from(["=", "<>", ">", ">=", "<", "<=", "==", "!=", "LIKE"])
CONDITIONS = st.one_of(
    VALUES,
    st.tuples(VALUES, COMPARISONS, VALUES).map(" ".join),
    st.tuples(VALUES, st.sampled_from(["IS NULL", "is not null", "IS", "NOT NULL"])).map(" ".join),
    st.tuples(VALUES, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), VALUES, st.just("AND"), VALUES).map(" ".join),
    st.tuples(VALUES, LISTS).map(" ".join),
    st.tuples(VALUES, st.sampled_from(["CONTAINS", "NOT STARTSWITH", "ENDSWITH"]), VALUES).map(" ".join),
)
EXPRESSIONS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR ", " and ", " -- c\n OR ", " "]), inner).map("".join),
        inner.map("({})".format),
        inner.map("NOT {}".format),
        inner.map("({}".format),
        inner.map("{} /* c */".format),
    ),
    max_leaves=6,
)
TOPIC = "expressions"


@pytest.fixture(scope="module")
def channel(apache: ApacheCluster) -> RemotingChannel:
    apache.administration.create_topic(TOPIC, 1)
    return get_remoting_channel(Connection(name_servers=apache.addresses))


def is_compiled(channel: RemotingChannel, broker_name: str, expression: str) -> bool:
    """Lets the broker compile an expression (rules 4.5)."""
    subscription = {"expressionType": "SQL92", "subString": expression, "subVersion": 0, "topic": TOPIC}
    body = json.dumps({"clientId": "c", "group": "g", "namespace": "", "subscriptionData": subscription})
    check = RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())
    try:
        channel.call(Target.of(MessageQueue(TOPIC, broker_name, 0)), check)
    except FilterRefused:
        return False
    return True


def is_read(expression: str) -> bool:
    try:
        parse(expression)
    except MalformedExpression:
        return False
    return True


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EXPRESSIONS)
@example("a = 5 garbage")
@example("")
def test_the_grammar_is_that_of_the_broker(channel: RemotingChannel, apache: ApacheCluster, expression: str) -> None:
    assert is_read(expression) is is_compiled(channel, apache.brokers[0].name, expression)
