"""What the wire's words become in the core."""

import pytest

from rmqpull_broker.core.errors import FilterNotSupported
from rmqpull_broker.core.filtering import EVERYTHING, MessageFilter, SqlFilter, parse_tags
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.stored_properties import same_in_all
from rmqpull_broker.server.codec import filter_from
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

CONSTANTS = tuple(same_in_all(BrokerProperties()).items())


@pytest.mark.parametrize(
    ("expression", "message_filter"),
    [
        (v2.FilterExpression(), EVERYTHING),
        (v2.FilterExpression(expression="a || b"), parse_tags("a || b")),
        (v2.FilterExpression(type=v2.FilterType.TAG, expression="a"), parse_tags("a")),
        (v2.FilterExpression(type=v2.FilterType.SQL, expression="a > 1"), SqlFilter("a > 1", CONSTANTS)),
    ],
)
def test_the_filter_of_a_pull(expression: v2.FilterExpression, message_filter: MessageFilter) -> None:
    assert filter_from(expression, BrokerProperties()) == message_filter


def test_without_the_property_filter_sql_is_refused_and_tags_are_not() -> None:
    tags_only = BrokerProperties(enable_property_filter=False)
    assert filter_from(v2.FilterExpression(), tags_only) == EVERYTHING
    with pytest.raises(FilterNotSupported, match="SQL92"):
        filter_from(v2.FilterExpression(type=v2.FilterType.SQL, expression="a > 1"), tags_only)
