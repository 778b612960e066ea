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
from tests.harness.apache_servers import start_proxy
from tests.harness.cli import RunCommand, error_of, make_runner
from tests.harness.server_kinds import WITHOUT_PROXY

QUEUES, ROWS = 2, 100


@pytest.fixture(params=["name server", "proxy"])
def server(request: pytest.FixtureRequest, apache_release: Release) -> str:
    if request.param == "proxy" and apache_release.name in WITHOUT_PROXY:
        pytest.skip(WITHOUT_PROXY[apache_release.name])
    return str(request.param)


@pytest.fixture
def run(server: str, apache: ApacheCluster) -> RunCommand:
    address = apache.addresses if server == "name server" else start_proxy(apache).remoting_address

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
    topic, group = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "behind"))
    apache.administration.create_topic(topic, QUEUES)
    text = "".join(json.dumps({"body": str(number), "keys": [f"k{number}"]}) + "\n" for number in range(ROWS))
    assert run("send", topic, stdin=text).stderr == f"{ROWS} messages were acknowledged\n"
    apache.administration.wait_until_in_queues(topic, apache.administration.find_masters())

    (shown,) = read(run("topic", topic, "--json"))
    assert (shown["messages"], len(shown["queues"])) == (ROWS, QUEUES)
    assert [message["body"] for message in read(run("peek", topic, "--key", "k42", "--json"))] == ["42"]
    assert len(read(run("tail", topic, "-n", "7", "--json"))) == 7
    assert run("export", topic, str(tmp_path / "a"), "--processes", "1").exit_code == 0
    table = ds.dataset([str(file) for file in (tmp_path / "a").glob("*.parquet")]).to_table(["body"])
    assert sorted(map(int, table.column("body").to_pylist())) == list(range(ROWS))

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
    assert groups[group] == {"group": group, "topics": [topic], "lag": ROWS}
    assert [(own["topic"], own["lag"]) for own in read(run("lag", group, "--json"))[0]] == [(topic, ROWS)]
