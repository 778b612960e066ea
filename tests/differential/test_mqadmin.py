"""Apache's `mqadmin` prints the same on the emulator and on a real broker, except for addresses, times and ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from processes.apache.administration import Administration
from processes.apache.cluster import ApacheCluster
from processes.apache.releases import RELEASE_5, Release
from rmqpull_broker.testing import running_broker
from tests.clients.programs.java.consumer import JavaConsumer
from tests.clients.programs.java.mqadmin import Mqadmin
from tests.harness.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "broker-support.md"
TOPIC, GROUP = "admin-orders", "admin-readers"
ALL_WITHIN_S = 600
LIVE = "admin-live"
"""A topic with one message, and a group with a member that has read it."""
UNIQ_KEY = "7F000001000000000000000000000{:03d}"

SAME = """
    topicRoute -t {topic}
    topicRoute -t {topic} -l
    topicStatus -t {topic}
    topicClusterList -t {topic}
    consumerProgress -g {group}
    consumerProgress -g {group} -t {topic}
    consumerStatus -g {group}
    consumerConnection -g {group}
    producerConnection -g nobody -t {topic}
    statsAll -t {topic}
    queryMsgById -t {topic} -i {id}
    queryMsgByKey -t {topic} -k k1
    queryMsgByUniqueKey -t {topic} -i {key}
    queryMsgByOffset -t {topic} -b broker-a -i 0 -o 0
    queryCq -t {topic} -q 0 -i 0 -b {broker}
    printMsg -t {topic}
    printMsgByQueue -t {topic} -a broker-a -i 0 -p true
    consumeMessage -t {topic} -b broker-a -i 0 -o 0 -c 1
    getConsumerConfig -g {group}
    allocateMQ -t {topic} -i a,b
    haStatus -b {broker}
    resetOffsetByTime -g {group} -t {topic} -s 0
    resetOffsetByTime -g {group} -t {topic} -s -1
    skipAccumulatedMessage -g {group} -t {topic}
    cloneGroupOffset -s {group} -d admin-others -t {topic} -o true
    sendMessage -t {topic} -p hello -k key -b broker-a -i 1
    checkMsgSendRT -t {topic} -a 2
    sendMsgStatus -b broker-a -c 2
    updateTopic -c DefaultCluster -t admin-made -r 3 -w 3 -a +message.type=FIFO
    updateTopic -b {broker} -t admin-made-too
    updateTopicPerm -c DefaultCluster -t admin-made -p 4
    switchTimerEngine -b {broker} -e F
    getParentTopicInfo -p {topic}
    getLiteTopicInfo -p {topic} -l lite
    getLiteClientInfo -p {topic} -g {group} -c nobody
    getLiteGroupInfo -p {topic} -g {group}
    triggerLiteDispatch -p {topic} -g {group}
    updateOrderConf -m put -t admin-made -v broker-a:3
    updateOrderConf -m get -t admin-made
    updateOrderConf -m delete -t admin-made
    deleteTopic -c DefaultCluster -t admin-made
    updateSubGroup -c DefaultCluster -g admin-made -r 3
    updateSubGroup -b {broker} -g admin-made
    setConsumeMode -b {broker} -t {topic} -g admin-made -m POP -q 1
    setConsumeMode -c DefaultCluster -t {topic} -g admin-made -m PULL
    setConsumeMode -b {broker} -t nothing -g admin-made -m POP -q 1
    deleteSubGroup -c DefaultCluster -g admin-made
    deleteSubGroup -b {broker} -g admin-made -r true
    updateBrokerConfig -b {broker} -k transactionCheckMax -v 15
    updateBrokerConfig -c DefaultCluster -k transactionCheckMax -v 15
    updateNamesrvConfig -k orderMessageEnable -v false
    updateKvConfig -s admin -k key -v value
    deleteKvConfig -s admin -k key
    wipeWritePerm -b broker-a
    addWritePerm -b broker-a
    cleanExpiredCQ -b {broker}
    cleanUnusedTopic -b {broker}
    deleteExpiredCommitLog -b {broker}
    updateTopicList -b {broker} -f {folder}/topics.json
    updateSubGroupList -b {broker} -f {folder}/groups.json
    exportMetadata -c DefaultCluster -t -f {folder}
    exportConfigs -c DefaultCluster -f {folder}
    exportMetrics -c DefaultCluster -f {folder}
    queryMsgTraceById -i {key}
"""
"""Commands of which all lines are equal."""

WITH_MEMBER = """
    consumerConnection -g {live}
    consumerProgress -g {live}
    consumerStatus -g {live}
"""
"""Commands about a group with a member, of which all lines are equal."""

FIRST_LINE = """
    clusterList
    clusterList -m
    topicList -c
    consumerProgress
    getBrokerLiteInfo -b {broker}
    brokerConsumeStats -b {broker}
    statsAll
"""
"""Commands that show all that a server has: the first line is equal."""

NAMES = """
    brokerStatus -b {broker}
    getBrokerConfig -b {broker}
    getBrokerConfig -c DefaultCluster
    getNamesrvConfig
"""
"""Commands that show many values: the real server has every name that the emulator shows, but for its own."""
OF_EMULATOR = {"retentionBytes"}

REFUSED = {
    "updateStaticTopic -t admin-static -qn 2 -c DefaultCluster": "513 not supported",
    "getColdDataFlowCtrInfo -b {broker}": "2003 not supported",
    "listUser -b {broker}": "3005 not supported",
    "listAcl -b {broker}": "3010 not supported",
    "addBroker -c {broker} -b broker.conf": "902 not supported",
    "getBrokerEpoch -b broker-a": "1007 not supported",
    "updateBrokerConfig -b {broker} -k nothing -v 1": "this broker has no property nothing",
}
"""Commands that the emulator refuses, and a part of what they print then."""


class Printed(NamedTuple):
    """What a command has printed on the emulator, and on the real server."""

    here: Sequence[str]
    there: Sequence[str]


def list_commands(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def prepare(name_servers: str) -> dict[str, str]:
    """Creates the topic with three messages, and the group with an offset. Returns the words of commands."""
    administration = Administration(name_servers)
    administration.create_topic(TOPIC, 2)
    administration.create_topic(f"%RETRY%{GROUP}", 1)
    administration.create_group(GROUP)
    broker = administration.find_masters()["broker-a"]
    for number in range(3):
        key = UNIQ_KEY.format(number)
        properties = f"KEYS\x01k{number}\x02UNIQ_KEY\x01{key}\x02TAGS\x01red\x02"
        sent = administration.send(broker, TOPIC, b"body %d" % number, number % 2, properties=properties)
    administration.set_offset(GROUP, TOPIC, 0, 1)
    administration.create_topic(LIVE, 1)
    administration.send(broker, LIVE, b"body")
    offset_id = sent.fields["msgId"]
    return {
        "topic": TOPIC,
        "live": LIVE,
        "group": GROUP,
        "names": name_servers,
        "broker": broker,
        "id": offset_id,
        "key": UNIQ_KEY.format(1),
    }


def run_all(release: Release, name_servers: str, folder: Path) -> dict[str, list[str]]:
    words = {**prepare(name_servers), "folder": str(folder)}
    (folder / "topics.json").write_text('[{"topicName":"admin-listed","perm":6}]', encoding="utf-8")
    (folder / "groups.json").write_text('[{"groupName":"admin-listed"}]', encoding="utf-8")
    live = JavaConsumer(release, name_servers, folder / "consumer", LIVE, LIVE)
    with live, Mqadmin(release, name_servers, folder) as mqadmin:

        def run(commands: Iterable[str]) -> dict[str, list[str]]:
            return {command: mqadmin.run(*command.format(**words).split()) for command in commands}

        live.read(1)
        printed = run([*list_commands(SAME + FIRST_LINE + NAMES), *REFUSED])
        wait_until(lambda: has_committed(name_servers), "the member's offsets committed")
        printed |= run(list_commands(WITH_MEMBER))
    return {command: normalize(line.replace(str(folder), "FOLDER") for line in printed[command]) for command in printed}


def has_committed(name_servers: str) -> bool:
    """Whether the member has told the broker all of its offsets, which it does some seconds after its start."""
    administration = Administration(name_servers)
    return [administration.query_offset(LIVE, topic, 0) for topic in (LIVE, f"%RETRY%{LIVE}")] == [1, 0]


def normalize(lines: Iterable[str]) -> list[str]:
    """Takes out what differs between any two servers, and the places in Java's sources where an exception was."""
    return [normalize_line(line) for line in lines if not re.match(r"\s+at |\s*\.\.\. ", line)]


def normalize_line(line: str) -> str:
    for what, pattern in _DIFFERENT.items():
        line = re.sub(pattern, what, line)
    # What statsAll counts in 24 hours: Apache's broker adds up each minute.
    return re.sub(r"(?<= RT) \d+( \d+)?(?= NO_CONSUMER$|$)", " COUNTS", " ".join(line.split()))


_DIFFERENT: Mapping[str, str] = {
    "CLIENT": r"[\w.:]+@\d+#\d+",
    "ADDRESS": r"127\.0\.0\.1:\d+",
    "TIME": r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:.]\d+)?",
    "ID": r"\b[0-9A-F]{32,}\b",
    "@ID@N": r"@ID@\d+$",
    r"\1N": r"((?:physicOffset|commitLogOffset|CommitLog Offset|CommitLogMaxOffset)\W*)\d+",
    "MS": r"\b\d{13}\b",
    "Consume TPS: N": r"Consume TPS: [\d.]+",
    "true RT": r"true\s+\d+$",
    "RT": r"\brt=\d+ms|(?<=Avg RT: )[\d.]+|(?<=\s)\d+\.\d\d(?=\s)",
    "OK, COUNT": r"OK, \d+$",
    "queueId=N": r"queueId=\d+\], queueOffset=\d+",
}


@pytest.fixture(scope="module")
def printed(
    apache_release: Release, apache: ApacheCluster, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Printed]:
    if apache_release is not RELEASE_5:
        pytest.skip("the emulator is compared with 5.5.0, whose mqadmin has these commands")
    with running_broker({}, remoting=True) as broker, ThreadPoolExecutor(2) as both:  # most of the commands wait
        servers = {"here": broker.remoting_addresses[0], "there": apache.addresses}
        runs = [both.submit(run_all, apache_release, servers[at], tmp_path_factory.mktemp(at)) for at in servers]
        here, there = (run.result(ALL_WITHIN_S) for run in runs)
    return {command: Printed(lines, there[command]) for command, lines in here.items()}


@pytest.mark.nightly
@pytest.mark.parametrize("command", list_commands(SAME + WITH_MEMBER))
def test_a_command_prints_the_same_lines(printed: Mapping[str, Printed], command: str) -> None:
    here, there = printed[command]
    assert here == there


@pytest.mark.nightly
@pytest.mark.parametrize("command", list_commands(FIRST_LINE))
def test_a_command_prints_the_same_table(printed: Mapping[str, Printed], command: str) -> None:
    here, there = printed[command]
    assert here[0] == there[0]
    assert len(here) > 1


@pytest.mark.nightly
@pytest.mark.parametrize("command", list_commands(NAMES))
def test_a_command_prints_the_same_names(printed: Mapping[str, Printed], command: str) -> None:
    here, there = (
        {line.replace(":", "=").split("=")[0].strip() for line in lines if re.search("[:=] ?", line)}
        for lines in printed[command]
    )
    assert here - there <= OF_EMULATOR
    assert len(here) > 2


@pytest.mark.nightly
def test_all_topics_are_listed(printed: Mapping[str, Printed]) -> None:
    for lines in printed["topicList -c"]:
        assert any(TOPIC in line and GROUP in line for line in lines)


@pytest.mark.nightly
@pytest.mark.parametrize("command", REFUSED)
def test_a_command_is_refused_clearly(printed: Mapping[str, Printed], command: str) -> None:
    assert REFUSED[command] in " ".join(printed[command].here)


@pytest.mark.nightly
def test_every_command_stands_in_the_documentation(
    apache_release: Release, apache: ApacheCluster, tmp_path: Path
) -> None:
    if apache_release is not RELEASE_5:
        pytest.skip("the page lists the commands of 5.5.0")
    with Mqadmin(apache_release, apache.addresses, tmp_path) as mqadmin:
        commands = {line.split()[0] for line in mqadmin.run() if line.startswith("   ") and line.strip()}
    section = PAGE.read_text(encoding="utf-8").split("\n## mqadmin\n")[1].split("\n## ")[0]
    documented = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in section.splitlines() if "|" in line))
    assert sorted(documented) == sorted(commands)


def test_the_documentation_says_which_commands_are_refused() -> None:
    section = PAGE.read_text(encoding="utf-8").split("\n## mqadmin\n")[1].split("\n## ")[0]
    refused = {name for line in section.splitlines() if "| refused" in line for name in re.findall(r"`(\w+)`", line)}
    assert {command.split()[0] for command in REFUSED} - {"updateBrokerConfig"} <= refused
    served = {command.split()[0] for command in list_commands(SAME + WITH_MEMBER + FIRST_LINE + NAMES)}
    assert not served & refused
