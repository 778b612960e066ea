"""A query starts again from its checkpoint, while a name server that was started again does not know all brokers."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.errors import DataLoss
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_remoting import Reaction, RouteScript, ScriptedServer, make_route
from tests.harness.stream_query import EVERYTHING, Json, make_reader

CHECKPOINT = {"version": 1, "offsets": {"orders": {"broker-a": {"0": 7}, "broker-b": {"0": 5}}}}


class Registering(RouteScript):
    """A name server with one broker. After it was asked for brokers three times, it has another one too."""

    def __init__(self, topics_of_b: tuple[str, ...]) -> None:
        def respond(request: RemotingCommand) -> Reaction:
            return request.make_response(0, {"offset": "0" if request.code == RequestCode.GET_MIN_OFFSET else "7"})

        super().__init__({})
        self.brokers = [ScriptedServer(respond), ScriptedServer(respond)]
        self.asked = 0
        self._topics_of_b = topics_of_b
        self._register({"orders": ("broker-a",), "of-broker-a": ("broker-a",)})

    def _register(self, topics: dict[str, tuple[str, ...]]) -> None:
        places = {"broker-a": {0: self.brokers[0].address}, "broker-b": {0: self.brokers[1].address}}
        self.routes = {
            topic: make_route({name: places[name] for name in names}, queues=1) for topic, names in topics.items()
        }

    def __call__(self, request: RemotingCommand) -> Reaction:
        self.asked += request.code == RequestCode.GET_BROKER_CLUSTER_INFO
        if self.asked == 3:
            later = dict.fromkeys(self._topics_of_b, ("broker-a", "broker-b"))
            self._register({"orders": ("broker-a",), "of-broker-b": ("broker-b",), **later})
        return super().__call__(request)


SELECTIONS = pytest.mark.parametrize(
    "selection", [{"topic": "orders"}, {"topicPattern": "ord.*"}], ids=["by name", "by pattern"]
)


def plan(name_server: Registering, selection: dict[str, str]) -> Json:
    """Plans the first micro-batch after the checkpoint."""
    with name_server.brokers[0], name_server.brokers[1], ScriptedServer(name_server) as server:
        reader = make_reader(nameServers=server.address, serverAwayTimeoutMs="60000", **selection)
        return reader.latestOffset(CHECKPOINT, EVERYTHING)


@SELECTIONS
def test_queues_of_a_broker_that_has_not_registered_yet_are_waited_for(selection: dict[str, str]) -> None:
    end = plan(Registering(topics_of_b=("orders",)), selection)
    assert end["offsets"] == {"orders": {"broker-a": {"0": 7}, "broker-b": {"0": 7}}}


@SELECTIONS
def test_queues_of_a_broker_that_registers_without_the_topic_are_lost(selection: dict[str, str]) -> None:
    name_server = Registering(topics_of_b=())
    with pytest.raises(DataLoss, match="Queue orders/broker-b/0 no longer exists"):
        plan(name_server, selection)
    assert name_server.asked == 3, "it was lost when the broker said so"
