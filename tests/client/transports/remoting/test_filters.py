"""A malformed filter is refused, also where the server compiles none: a broker would let all messages through."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError
from rmqpull_client.model import SQL92, TAG, MessageFilter, MessageQueue
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_proto.filters.sql92_grammar import TOKENS_MAX
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_proxy import serve_proxy
from tests.harness.scripted_remoting import RouteScript, ScriptedServer, make_route, refuse_code

QUEUE = MessageQueue("orders", "broker-a", 0)


def answer(request: RemotingCommand) -> RemotingCommand:
    """Confirms every expression, and finds no message."""
    if request.code == RequestCode.CHECK_CLIENT_CONFIG:
        return request.make_response(ResponseCode.SUCCESS)
    if request.code == RequestCode.PULL_MESSAGE:
        fields = {"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0", "suggestWhichBrokerId": "0"}
        return request.make_response(ResponseCode.PULL_NOT_FOUND, fields)
    return refuse_code(request)


def refuse_checks(request: RemotingCommand) -> RemotingCommand:
    """Does not know the request that checks expressions."""
    return refuse_code(request) if request.code == RequestCode.CHECK_CLIENT_CONFIG else answer(request)


@contextmanager
def serve_cluster() -> Iterator[tuple[RemotingClient, ScriptedServer]]:
    """A compatible server that lacks the check, at its name server."""
    broker = ScriptedServer(refuse_checks)
    name_server = ScriptedServer(RouteScript({"orders": make_route({"broker-a": {0: broker.address}})}))
    with broker, name_server:
        client = RemotingClient(RemotingChannel(Connection(name_servers=name_server.address)))
        yield client, broker
        client.close()


def serve_confirming_proxy() -> AbstractContextManager[tuple[RemotingClient, ScriptedServer]]:
    return serve_proxy(answer)


Serve = Callable[[], AbstractContextManager[tuple[RemotingClient, ScriptedServer]]]
servers = pytest.mark.parametrize("serve", [serve_confirming_proxy, serve_cluster], ids=["proxy", "without the check"])


@servers
@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("number >", 'Invalid MessageSelector. Encountered "<EOF>"'),
        ("", 'Invalid MessageSelector. Encountered "<EOF>"'),
        ("(" * 101 + "a" + ")" * 101, "Its parentheses are nested deeper than 100 levels"),
        ("a = 1" + " OR a = 1" * TOKENS_MAX, f"The expression has more than {TOKENS_MAX} words and signs"),
    ],
    ids=["malformed", "empty", "too deep", "too long to be read"],
)
def test_nothing_is_pulled_with_an_expression_that_the_client_cannot_read(
    serve: Serve, expression: str, words: str
) -> None:
    with serve() as (client, server):
        with pytest.raises(OptionError, match=re.escape(words)):
            client.check_filter("readers", QUEUE, 0, MessageFilter(expression, SQL92))
        assert RequestCode.PULL_MESSAGE not in {request.code for request in server.requests}


@servers
@pytest.mark.parametrize(
    "wanted", [MessageFilter("number > 5 AND region IN ('eu', 'us')", SQL92), MessageFilter("paid || sent", TAG)]
)
def test_a_well_formed_filter_is_left_to_the_broker(serve: Serve, wanted: MessageFilter) -> None:
    with serve() as (client, server):
        client.check_filter("readers", QUEUE, 0, wanted)
        assert [r.code for r in server.requests if r.code == RequestCode.PULL_MESSAGE] == [RequestCode.PULL_MESSAGE]
