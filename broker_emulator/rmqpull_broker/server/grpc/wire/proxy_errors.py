"""How Apache's proxy reports errors: its own, its brokers', and those of topics without a route (rules 5.4, 6.2)."""

from __future__ import annotations

from typing import TypeVar

from rmqpull_broker.core.errors import BrokerError, InternalError, TopicNotFound
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_proto.remoting.codes import ResponseCode

FROM_PROXY = "org.apache.rocketmq.proxy.common.ProxyException: "
"""The beginning of the text of the proxy's own exceptions."""
_PASSED_ON = frozenset(
    (
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    )
)
"""The broker's remoting codes for which the proxy has a code of its own."""

_Error = TypeVar("_Error", bound=BrokerError)


def name_exception(error: _Error) -> _Error:
    """Returns an error as the proxy reports an exception of its own: with the name of the Java class."""
    return type(error)(f"{FROM_PROXY}{error}")


def pass_on(error: BrokerError) -> BrokerError:
    """Returns an error of a broker as the proxy reports it: most codes become INTERNAL_SERVER_ERROR."""
    return error if error.response_code in _PASSED_ON else InternalError(str(error))


def require_route(state: BrokerState, name: str) -> TopicConfig:
    """Returns a topic for which the proxy finds a route. Raises TopicNotFound."""
    topic = state.topics.get(name)
    if topic is None:
        raise no_route(name)
    return topic


def no_route(topic: str) -> TopicNotFound:
    """Returns the error for a topic for which the proxy finds no route."""
    return TopicNotFound(
        f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}\n"
        "For more information, please visit the url, https://rocketmq.apache.org/docs/bestPractice/06FAQ"
    )
