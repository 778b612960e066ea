"""The commands on a real RocketMQ: by its name server, and by its proxy, which refuses some of them by name."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from click.testing import Result

from processes.apache.cluster import ApacheCluster
from processes.apache.releases import Release
from rmqpull_client.cli import main
from rmqpull_proto.remoting.codes import RequestCode
from tests.harness.apache_servers import start_proxy
from tests.harness.cli import RunCommand, error_of, make_runner
from tests.harness.remoting_member import RemotingMember, make_membership
from tests.harness.server_kinds import WITHOUT_PROXY

QUEUES, ROWS = 2, 100


@pytest.fixture(params=["name server", "proxy"], scope="module")
def server(request: pytest.FixtureRequest, apache_release: Release) -> str:
    if request.param == "proxy" and apache_release.name in WITHOUT_PROXY:
        pytest.skip(WITHOUT_PROXY[apache_release.name])
    return str(request.param)


@pytest.fixture(scope="module")
def address(server: str, apache: ApacheCluster) -> str:
    return apache.addresses if server == "name server" else start_proxy(apache).remoting_address


@pytest.fixture
def run(address: str) -> RunCommand:
    def run_command(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return make_runner(env={"RMQPULL_NAME_SERVERS": address}).invoke(
            main, list(arguments), input=stdin, prog_name="rmqpull"
        )

    return run_command


def read(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_command_does_what_the_table_of_its_page_says(
    run: RunCommand, server: str, apache: ApacheCluster, tmp_path: Path
) -> None:
    topic, copies, group = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "copies", "behind"))
    for name in (topic, copies):
        apache.administration.create_topic(name, QUEUES)
    text = "".join(json.dumps({"body": str(number), "keys": [f"k{number}"]}) + "\n" for number in range(ROWS))
    assert run("send", topic, stdin=text).stderr == f"{ROWS} messages were acknowledged\n"
    apache.administration.wait_until_in_queues(topic, apache.administration.find_masters())

    (shown,) = read(run("topic", topic, "--json"))
    assert (shown["messages"], len(shown["queues"])) == (ROWS, QUEUES)
    by_key = run("peek", topic, "--key", "k42", "--json")
    (found,) = read(by_key)
    assert (found["body"], "proxy" in by_key.stderr) == ("42", server == "proxy")
    for wanted in (("--scan", "100", "--key", "k42"), ("--id", found["msgId"])):
        assert read(run("peek", topic, *wanted, "--json")) == [found]
    assert f"topic {topic} has no queue 9" in error_of(run("peek", topic, "--key", "k42", "--queue", "9"))
    assert len(read(run("tail", topic, "-n", "7", "--json"))) == 7
    assert run("export", topic, str(tmp_path / "a"), "--processes", "1").exit_code == 0
    table = ds.dataset([str(file) for file in (tmp_path / "a").glob("*.parquet")]).to_table(["body"])
    assert sorted(map(int, table.column("body").to_pylist())) == list(range(ROWS))

    offsets = ("--offsets", str(tmp_path / "offsets.json"))
    for count in (ROWS, 0):
        assert run("copy", topic, copies, *offsets).stderr == f"copied {count} messages\n"
    apache.administration.wait_until_in_queues(copies, apache.administration.find_masters())
    assert [message["body"] for message in read(run("peek", copies, "--key", "k42", "--json"))] == ["42"]

    reset = read(run("reset", group, topic, "--to", "earliest", "--yes", "--json"))[0]
    assert [(row["from"] or 0, row["to"]) for row in reset] == [(0, 0)] * QUEUES  # 4.x tells 0 instead of nothing
    (lag,) = read(run("lag", group, "--topic", topic, "--json"))[0]
    assert (lag["lag"], lag["queues"]) == (ROWS, QUEUES)

    if server == "proxy":
        for arguments in (("topics",), ("groups",), ("lag",), ("lag", group)):
            assert "proxy" in error_of(run(*arguments))
        return
    topics = {row["topic"]: row for row in read(run("topics", "--json"))[0]}
    assert topics[topic] == {"topic": topic, "brokers": 1, "queues": QUEUES, "messages": ROWS}
    groups = {row["group"]: row for row in read(run("groups", "--json"))[0]}
    assert groups[group] == {"group": group, "topics": [topic], "lag": ROWS, "inFlight": None}
    assert [(own["topic"], own["lag"]) for own in read(run("lag", group, "--json"))[0]] == [(topic, ROWS)]


def test_messages_are_found_in_the_index(run: RunCommand, server: str, apache: ApacheCluster) -> None:
    """By key, by the id of the client, and by the one that the broker gave; of this topic only."""
    topic, other = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "others"))
    (address,) = apache.administration.find_masters().values()
    ids = []
    for number, name in enumerate((topic, other, *(topic,) * 69)):
        if number < 2:
            apache.administration.create_topic(name, 1)
        properties = f"KEYS\1same n{number}\2UNIQ_KEY\1own{number}\2"
        ids.append(apache.administration.send(address, name, b"%d" % number, properties=properties).fields["msgId"])
    apache.administration.wait_until_in_queues(topic, apache.administration.find_masters())

    def find(*wanted: str) -> list[int]:
        return [int(message["body"]) for message in read(run("peek", topic, *wanted, "--json"))]

    assert find("--key", "same", "-n", "3") == [68, 69, 70]
    assert find("--key", "n5") == find("--id", "own5") == [5]
    assert find("--key", "n1") == find("--id", "own1") == []
    if server == "proxy":
        assert find("--id", ids[5]) == []  # no broker has the proxy's address
        return
    assert find("--id", ids[5]) == [5]
    assert find("--id", ids[1]) == []
    more = run("peek", topic, "--key", "same", "-n", "100")
    assert (len(more.stdout.splitlines()), "there may be older ones" in more.stderr) == (65, True)
    assert len(find("--key", "same", "-n", "100", "--scan", "100")) == 70


def test_brokers_reset_a_group_with_members(
    run: RunCommand, server: str, address: str, apache: ApacheCluster, apache_release: Release
) -> None:
    """From 5.2 on they set its offsets. Before, they only tell members, who have to set them."""
    topic, group = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "members"))
    apache.administration.create_topic(topic, QUEUES)
    lines = "".join(f"{number}\n" for number in range(ROWS))
    assert run("send", topic, "--format", "lines", stdin=lines).exit_code == 0
    apache.administration.wait_until_in_queues(topic, masters := apache.administration.find_masters())
    assert run("reset", group, topic, "--to", "earliest", "--yes").exit_code == 0
    (broker,) = masters.values()

    def reset(*arguments: str) -> Result:
        return run("reset", group, topic, *arguments, "--yes", "--json")

    def list_offsets() -> list[int]:
        return [own["consumerOffset"] for own in read(run("lag", group, "--topic", topic, "--queues", "--json"))[0]]

    one_queue = ("--queue", "1", "--to-offset", "3")
    with RemotingMember(broker if server == "name server" else address, "ann") as member:
        member.beat(make_membership(group, topic))
        if server == "proxy":
            assert "is a proxy, which resets no such group" in error_of(reset("--to", "latest"))
            return
        (rows,) = read(result := reset("--to", "latest"))
        assert [(row["queueId"], row["from"], row["to"]) for row in rows] == [(0, 0, 50), (1, 0, 50)]
        assert f"group {group} has 1 member" in result.stderr
        if apache_release.name in ("4.9", "5.1"):
            while (told := member.receive()).code != RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                assert told.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
            assert (told.fields["topic"], list_offsets()) == (topic, [0, 0])
            assert "can reset such a group only on all queues" in error_of(reset(*one_queue))
            return
        assert list_offsets() == [50, 50]
        assert [(row["queueId"], row["to"]) for row in read(reset(*one_queue))[0]] == [(1, 3)]
        assert list_offsets() == [50, 3]
