"""Apache's `mqadmin` shows a group that pops, and its retries, as on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from processes.apache.administration import Administration
from processes.apache.cluster import ApacheCluster
from processes.apache.releases import RELEASE_5, Release
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode
from tests.clients.programs.java.mqadmin import Mqadmin
from tests.differential.test_mqadmin import ALL_WITHIN_S, Printed, list_commands, normalize
from tests.harness.receiver import Receiver
from tests.harness.remoting_member import RemotingMember, make_membership
from tests.harness.waiting import wait_until

TOPIC, GROUP, PULLERS = "admin-popped", "admin-poppers", "admin-pullers"
RETRIES = f"%RETRY%{GROUP}_{TOPIC}"

SAME = """
    consumerProgress -g {group}
    consumerProgress -g {group} -t {topic}
    consumerProgress -g {group} -t {retries}
    consumerProgress -g {pullers} -t {topic}
    consumerStatus -g {group}
    topicStatus -t {topic}
    topicStatus -t {retries}
    topicRoute -t {retries}
    statsAll -t {topic}
"""
"""Commands of which all lines are equal."""
WITH_MEMBER = """
    consumerProgress -g {group}
    consumerProgress -g {group} -t {retries}
"""
"""Commands of which all lines are equal when the group has a member, which does not subscribe to its retries."""
ROWS = """
    brokerConsumeStats -b {broker}
    consumerProgress
"""
"""Commands that show all groups: the rows of this one are equal."""

Pop = Callable[[Administration, int], None]
"""Receives so many messages for the group. What it receives first is redelivered soon."""


def run_all(release: Release, name_servers: str, folder: Path, pop: Pop) -> dict[str, list[str]]:
    """Two messages are redelivered and three wait, then all of them are in flight. Returns what mqadmin prints."""
    administration = Administration(name_servers)
    for topic in (TOPIC, f"%RETRY%{GROUP}", f"%RETRY%{PULLERS}"):
        administration.create_topic(topic, 1)
    for group in (GROUP, PULLERS):
        administration.create_group(group)
    masters = administration.find_masters()
    for _ in range(5):
        administration.send(masters["broker-a"], TOPIC, b"body", 0)
    administration.wait_until_in_queues(TOPIC, masters)
    administration.set_offset(PULLERS, TOPIC, 0, 4)
    pop(administration, 2)
    wait_until(lambda: RETRIES in administration.list_topics(), "the topic of the retries")
    wait_until(lambda: administration.count_messages(RETRIES) == 2, "both messages stored again")
    words = {"topic": TOPIC, "group": GROUP, "pullers": PULLERS, "retries": RETRIES, "broker": masters["broker-a"]}
    with Mqadmin(release, name_servers, folder) as mqadmin:

        def show(commands: str) -> dict[str, list[str]]:
            return {each: normalize(mqadmin.run(*each.format(**words).split())) for each in list_commands(commands)}

        waiting = show(SAME)
        pop(administration, 5)
        # Apache's broker keeps the offsets of pops some moments later.
        wait_until(lambda: administration.query_offset(GROUP, RETRIES, 0) == 2, "the offset of the retries")
        taken = show(SAME + ROWS)
        with RemotingMember(words["broker"]) as member:
            member.beat(make_membership(GROUP, TOPIC, f"%RETRY%{GROUP}"))
            online = show(WITH_MEMBER)
    states = {"waiting": waiting, "taken": taken, "online": online}
    return {f"{state}: {command}": lines for state, shown in states.items() for command, lines in shown.items()}


def pop_there(administration: Administration, count: int) -> None:
    fields = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": 0,
        "maxMsgNums": count,
        "initMode": 0,
        "order": "false",
        "pollTime": 0,
        "bornTime": time.time_ns() // 1_000_000 + 60_000,  # a pop that is late by half a second is refused
        "exp": "*",
        "expType": "TAG",
        "invisibleTime": 2_000 if count == 2 else 60_000,
    }
    administration.call(administration.find_masters()["broker-a"], RequestCode.POP_MESSAGE, fields)


def make_pop_here(broker: RunningBroker) -> Pop:
    def pop(administration: Administration, count: int) -> None:
        with Receiver(broker.endpoints, GROUP, TOPIC) as receiver:
            assert len(receiver.receive(count, 60_000)) == count
            receiver.leave()
        if count == 2:
            broker.clock.advance(minutes=1)

    return pop


@pytest.fixture(scope="module")
def printed(
    apache_release: Release, apache: ApacheCluster, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Printed]:
    if apache_release is not RELEASE_5:
        pytest.skip("the emulator is compared with 5.5.0, which has pop")
    with running_broker({}, remoting=True, clock="manual") as broker, ThreadPoolExecutor(2) as both:
        servers = {
            "here": (broker.remoting_addresses[0], make_pop_here(broker)),
            "there": (apache.addresses, pop_there),
        }
        folders = {at: tmp_path_factory.mktemp(at) for at in servers}
        runs = [both.submit(run_all, apache_release, names, folders[at], pop) for at, (names, pop) in servers.items()]
        here, there = (run.result(ALL_WITHIN_S) for run in runs)
    return {command: Printed(lines, there[command]) for command, lines in here.items()}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("state", "command"),
    [
        *(("waiting", command) for command in list_commands(SAME)),
        *(("taken", command) for command in list_commands(SAME)),
        *(("online", command) for command in list_commands(WITH_MEMBER)),
    ],
)
def test_a_command_prints_the_same_lines(printed: Mapping[str, Printed], state: str, command: str) -> None:
    here, there = printed[f"{state}: {command}"]
    assert here == there


@pytest.mark.nightly
@pytest.mark.parametrize("command", list_commands(ROWS))
def test_a_command_prints_the_same_rows(printed: Mapping[str, Printed], command: str) -> None:
    here, there = (sorted(line for line in lines if GROUP in line) for lines in printed[f"taken: {command}"])
    assert here == there
    assert here
