"""A name server and a broker of Apache's start, crash and come back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes.apache.cluster import ApacheCluster
from processes.apache.releases import Release
from processes.process_table import list_session
from tests.harness.apache import StartApache
from tests.harness.waiting import wait_until

STARTS = """
import sys, time
from pathlib import Path
from processes.apache.releases import RELEASES
from processes.apache.servers import NameServer

server = NameServer(release=RELEASES[sys.argv[1]], folder=Path(sys.argv[2]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def test_a_started_broker_is_registered_and_creates_topics(apache: ApacheCluster) -> None:
    broker = apache.brokers[0]
    assert apache.administration.find_brokers() == {"broker-a": {0: broker.address}}
    apache.administration.create_topic("servers-first", 3)
    queues = apache.administration.find_route("servers-first")["queueDatas"]
    assert [(one["brokerName"], one["writeQueueNums"]) for one in queues] == [("broker-a", 3)]


@pytest.mark.nightly
def test_a_killed_broker_comes_back_on_its_ports_with_its_topics(start_apache: StartApache) -> None:
    cluster = start_apache()
    broker, administration = cluster.brokers[0], cluster.administration
    administration.create_topic("orders", 2)
    administration.create_group("readers")
    administration.set_offset("readers", "orders", 1, 7)
    address, first = broker.address, broker.pid
    broker.stop()  # a broker writes consumer offsets every 5 s, and when it stops
    broker.start()
    broker.restart()
    assert (broker.address, broker.is_running) == (address, True)
    assert broker.pid != first
    assert administration.query_offset("readers", "orders", 1) == 7
    assert administration.find_route("orders")["brokerDatas"][0]["brokerAddrs"] == {"0": address}


def test_a_killed_name_server_learns_the_brokers_again(start_apache: StartApache) -> None:
    cluster = start_apache()
    cluster.name_servers[0].restart()
    broker = cluster.brokers[0]
    cluster.administration.update_broker(broker.address, brokerPermission="6")  # registers at once
    wait_until(lambda: "broker-a" in cluster.administration.find_brokers(), "registered")


def test_the_end_of_a_cluster_is_the_end_of_its_processes(start_apache: StartApache) -> None:
    cluster = start_apache()
    pids = [server.pid for server in (*cluster.brokers, *cluster.name_servers)]
    cluster.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_end_of_python_is_the_end_of_its_servers(apache_release: Release, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS, apache_release.name, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as python:
        assert python.stdout is not None
        server = int(python.stdout.readline())
        python.kill()
    wait_until(lambda: list_session(server) == [], "ended")
