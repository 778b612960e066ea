"""What Apache's proxy makes of errors: of its own, of its brokers', and of topics without a route (rules 5.4, 6.2)."""

from __future__ import annotations

from typing import TypeVar

from rmqpull_broker.core.errors import BrokerError, InternalError, TopicNotFound
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.state.broker_state import BrokerState

FROM_PROXY = "org.apache.rocketmq.proxy.common.ProxyException: "
"""How the text of an exception of the proxy itself begins."""
_PASSED_ON = frozenset((2, 3, 17, 26))
"""The remoting codes of a broker for which the proxy has a code of its own."""

_Error = TypeVar("_Error", bound=BrokerError)


def name_exception(error: _Error) -> _Error:
    """Returns an error as the proxy tells an exception of its own: with the name of the class in Java."""
    return type(error)(f"{FROM_PROXY}{error}")


def pass_on(error: BrokerError) -> BrokerError:
    """Returns an error of a broker as the proxy tells it: most codes become INTERNAL_SERVER_ERROR."""
    return error if error.response_code in _PASSED_ON else InternalError(str(error))


def require_route(state: BrokerState, name: str) -> TopicConfig:
    """Returns a topic that the proxy finds a route of. Raises TopicNotFound."""
    topic = state.topics.get(name)
    if topic is None:
        raise no_route(name)
    return topic


def no_route(topic: str) -> TopicNotFound:
    """Returns the error for a topic of which the proxy finds no route."""
    return TopicNotFound(
        f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}\n"
        "For more information, please visit the url, https://rocketmq.apache.org/docs/bestPractice/06FAQ"
    )
