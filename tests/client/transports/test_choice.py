"""Which transport serves a connection."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.choice import connect, get_producer
from rmqpull_client.transports.grpc.channel import KNOWN_FOR_S, get_channel
from rmqpull_client.transports.grpc.columnar.client import ColumnarClient
from rmqpull_client.transports.grpc.producer import GrpcProducer
from rmqpull_client.transports.grpc.standard.client import StandardClient
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.sending.producer import RemotingProducer
from tests.harness.scripted_remoting import RouteScript, ScriptedServer, make_route
from tests.harness.waiting import WAIT_S


@pytest.mark.parametrize(("extensions", "kind"), [("columns", ColumnarClient), ("none", StandardClient)])
def test_endpoints_are_served_by_the_transport_that_the_server_has(extensions: str, kind: type) -> None:
    with running_broker({"orders": 1}, extensions=extensions) as broker:
        client = connect(broker.endpoints)
        assert type(client) is kind
        client.close()
        assert type(get_producer(Connection(broker.endpoints))) is GrpcProducer


@pytest.mark.parametrize(("extensions", "kind"), [("columns", ColumnarClient), ("none", StandardClient)])
def test_what_an_earlier_server_at_the_address_had_is_forgotten(
    extensions: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's processes outlive servers, so a query may start where another server was a moment ago."""
    with running_broker(extensions=extensions) as broker:
        channel = get_channel(Connection(broker.endpoints))
        channel.note_columns(kind is StandardClient)
        assert type(connect(broker.endpoints)) is not kind
        # Only for now: a later broker may get the same port, and then the same channel.
        monkeypatch.setattr(channel, "read_clock_s", lambda: time.monotonic() + KNOWN_FOR_S)
        client = connect(broker.endpoints)
        assert type(client) is kind
        client.close()


def test_name_servers_are_served_by_the_remoting_protocol() -> None:
    with ScriptedServer(RouteScript({"orders": make_route({"broker-a": {0: "127.0.0.1:1"}})})) as name_server:
        connection = Connection(name_servers=name_server.address)
        client = connect(connection)
        assert type(client) is RemotingClient
        assert client.endpoints == name_server.address
        assert client.list_topics() == ["orders"]
        assert type(get_producer(connection)) is RemotingProducer
        client.close()


def test_bad_name_servers_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(OptionError, match="'localhost' is not HOST:PORT"):
        connect(Connection(name_servers="localhost"))


@pytest.mark.processes
def test_the_modules_of_the_remoting_protocol_are_loaded_when_they_are_needed() -> None:
    program = (
        "import sys, rmqpull_client.transports.choice;"
        "print([name for name in sys.modules if 'transports.remoting' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.processes
def test_a_client_of_a_cluster_looks_for_neither_grpc_nor_pandas() -> None:
    """Each query starts a process, which their import would delay by a quarter of a second."""
    program = (
        "import sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('grpc', 'pandas', 'numpy'): print(name)\n"
        "sys.meta_path.insert(0, Watch())\n"
        "from rmqpull_client import Connection, connect\n"
        "connect(Connection(name_servers='127.0.0.1:9876'))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert set(ran.stdout.split()) == {"numpy"}


@pytest.mark.parametrize("open_transport", [connect, get_producer])
def test_without_numpy_the_error_says_what_to_install_and_where(
    open_transport: Callable[[Connection], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numpy" else find_spec(name))
    with pytest.raises(OptionError) as refused:
        open_transport(Connection(name_servers="127.0.0.1:9876"))
    assert str(refused.value) == (
        "Option nameServers (Connection.name_servers) needs NumPy, which is not installed for the Python at "
        f"{sys.executable}: install it there, with pip install 'rmqpull[remoting]'."
    )


@pytest.mark.processes
def test_nothing_of_the_remoting_protocol_is_loaded_before_numpy_is_found() -> None:
    """An interpreter without NumPy: its import fails, and no module is found."""
    program = (
        "import importlib.util, sys; sys.modules['numpy'] = None; find = importlib.util.find_spec;"
        "importlib.util.find_spec = lambda name: None if name == 'numpy' else find(name);"
        "from rmqpull_client import Connection, OptionError, connect\n"
        "try: connect(Connection(name_servers='127.0.0.1:9876'))\n"
        "except OptionError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert "pip install 'rmqpull[remoting]'" in ran.stdout
