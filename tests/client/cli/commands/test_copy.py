"""``rmqpull copy``: what is copied and where to, how a copy goes on, and what it may repeat."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from rmqpull_broker.cli import main as broker_main
from rmqpull_broker.core.model import Message, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.cli import main
from rmqpull_client.cli.copies import copied, copier
from rmqpull_client.cli.durable_files import write_file
from rmqpull_client.cli.file_locks import lock_file
from tests.harness.cli import RunCommand, RunJson, error_of, make_runner

NOON = "2013-01-31T12:00:00Z"


def send(broker: RunningBroker, first: int, until: int) -> None:
    for number in range(first, until):
        tag = "odd" if number % 2 else "even"
        properties = {"number": str(number)}
        broker.send("orders", Message(b"%d" % number, f"id-{number}", tags=tag, keys=("k",), properties=properties))
        broker.clock.advance(1)


@pytest.fixture(autouse=True)
def _ten_messages(broker: RunningBroker) -> None:
    """Bodies 0 to 9 on the two queues of ``orders``: even ones in the first, odd ones in the second."""
    send(broker, 0, 10)
    broker.create_topic("copies", 2)


pytestmark = pytest.mark.parametrize("broker", ["manual"], indirect=True, ids=["manual clock"])


def peek(run_json: RunJson, topic: str, *arguments: str) -> list[dict[str, Any]]:
    return list(run_json("peek", topic, "-n", "1000", *arguments))


def list_bodies(run_json: RunJson, topic: str, *arguments: str) -> list[int]:
    return sorted(int(message["body"]) for message in peek(run_json, topic, *arguments))


def test_messages_keep_their_content_their_order_and_their_queues(run: RunCommand, run_json: RunJson) -> None:
    result = run("copy", "orders", "copies")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "copied 10 messages\n")
    for queue in ("0", "1"):
        pairs = zip(peek(run_json, "orders", "--queue", queue), peek(run_json, "copies", "--queue", queue), strict=True)
        for message, copy in pairs:
            for name in ("body", "tags", "keys", "properties", "msgId", "queueOffset"):
                assert copy[name] == message[name]


def test_several_queues_are_copied_to_one_in_order(run: RunCommand, run_json: RunJson) -> None:
    assert run_json("copy", "orders", "single") == {"from": "orders", "to": "single", "messages": 10, "lost": 0}
    bodies = [int(message["body"]) for message in peek(run_json, "single")]
    for parity in (0, 1):
        assert [body for body in bodies if body % 2 == parity] == list(range(parity, 10, 2))


@pytest.mark.parametrize("to", ["--to-endpoints", "--to-name-servers", "--to-profile"])
def test_another_cluster_gets_copies(run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    with running_broker(topics={"orders": 3}, remoting=True) as other:
        value = other.endpoints if to == "--to-endpoints" else other.remoting_addresses[0]
        if to == "--to-profile":
            file = tmp_path / "profiles.toml"
            file.touch(0o600)
            file.write_text(f'[other]\nname-servers = "{value}"\n', encoding="utf-8")
            monkeypatch.setenv("RMQPULL_PROFILES", str(file))
            value = "other"
        assert run("copy", "orders", "orders", to, value).stderr == "copied 10 messages\n"
        assert sorted(int(each.message.body) for each in other.messages("orders")) == list(range(10))


@pytest.mark.parametrize(
    ("arguments", "bodies"),
    [
        (["--tag", "odd"], [1, 3, 5, 7, 9]),
        (["--sql", "number = '4'"], [4]),
        (["--since", NOON, "--until", NOON], []),
        (["--until", "9999-12-31T00:00:00Z"], range(10)),
    ],
)
def test_a_filter_and_a_span_of_time_are_chosen(
    run: RunCommand, run_json: RunJson, arguments: list[str], bodies: Any
) -> None:
    assert run("copy", "orders", "copies", *arguments).exit_code == 0
    assert list_bodies(run_json, "copies") == list(bodies)


def test_the_file_of_offsets_lets_it_go_on_with_what_has_come_since(
    broker: RunningBroker, run: RunCommand, run_json: RunJson, tmp_path: Path
) -> None:
    arguments = ("copy", "orders", "copies", "--tag", "even", "--offsets", str(tmp_path / "offsets.json"))
    for until, count in ((10, 5), (10, 0), (14, 2)):
        send(broker, until - 2 * count if until > 10 else 10, until)
        assert run(*arguments).stderr == f"copied {count} messages\n"
    assert list_bodies(run_json, "copies") == list(range(0, 14, 2))


def test_an_interrupted_copy_goes_on_and_repeats_only_its_last_call(
    broker: RunningBroker, run: RunCommand, run_json: RunJson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interruption comes when the third call is acknowledged, and not yet noted."""
    monkeypatch.setattr(copier, "CALL_ROWS_MAX", 3)
    arguments = ("copy", "orders", "copies", "--offsets", str(tmp_path / "offsets.json"))
    with monkeypatch.context() as patch:
        writes = itertools.count()

        def write_until_the_third(path: Path, data: bytes) -> None:
            if next(writes) == 3:
                raise KeyboardInterrupt
            write_file(path, data)

        patch.setattr(copied, "write_file", write_until_the_third)
        error = error_of(run(*arguments))
    assert error.startswith("interrupted; ")
    assert error.endswith(
        "messages are copied. Run the command again to go on, which may repeat the messages of the last call, up to "
        "10,000"
    )
    assert run(*arguments).exit_code == 0
    bodies = list_bodies(run_json, "copies")
    assert set(bodies) == set(range(10))
    assert 10 < len(bodies) <= 13


def test_messages_of_a_group_stay_in_order(broker: RunningBroker, run: RunCommand, run_json: RunJson) -> None:
    for name in ("fifo", "fifo-copy"):
        broker.create_topic(name, 2, TopicType.FIFO)
    for number in range(6):
        broker.send("fifo", Message(b"%d" % number, f"id-{number}", message_group=f"g{number % 3}"))
    assert run("copy", "fifo", "fifo-copy").stderr == "copied 6 messages\n"
    for message, copy in zip(*(peek(run_json, name, "--queue", "0") for name in ("fifo", "fifo-copy")), strict=True):
        assert (copy["body"], copy["messageGroup"]) == (message["body"], message["messageGroup"])


def test_a_refused_message_ends_it(broker: RunningBroker, run: RunCommand) -> None:
    broker.send("orders", b"x" * 2_000)
    with running_broker(topics={"orders": 3}, properties=BrokerProperties(max_message_size=1_000)) as other:
        error = error_of(run("copy", "orders", "orders", "--to-endpoints", other.endpoints))
    assert "the message is illegal, maybe msg body" in error
    assert "; 0 messages are copied, and some that were sent last may be copied too. Another run begins anew" in error


@pytest.mark.usefixtures("broker")
def test_deleted_messages_are_named(tmp_path: Path) -> None:
    properties = BrokerProperties(file_reserved_time=1, mapped_file_size_commit_log=64 << 10)
    topics, folder = {"orders": 1, "copies": 1}, str(tmp_path / "data")
    with running_broker(topics, properties=properties, clock="manual", data_dir=folder) as broker:
        run = make_runner(env={"RMQPULL_ENDPOINTS": broker.endpoints})
        arguments = ["copy", "orders", "copies", "--offsets", str(tmp_path / "offsets.json")]
        broker.send("orders", b"x" * (64 << 10))
        assert run.invoke(main, [*arguments, "--until", NOON]).exit_code == 0
        broker.clock.advance(hours=2)
        broker.send("orders", b"new")
        assert run.invoke(broker_main, ["broker", "expire"]).stderr == "deleted 1 messages\n"
        result = run.invoke(main, arguments)
        assert error_of(result) == "messages were deleted before they were copied"
        assert "copied 1 message\n" in result.stderr
        assert [each.message.body for each in broker.messages("copies")] == [b"new"]


def test_what_cannot_be_copied_is_refused_before_anything_is_sent(
    run: RunCommand, run_json: RunJson, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.json"
    assert run("copy", "orders", "copies", "--tag", "none", "--offsets", str(file)).exit_code == 0
    kept = json.loads(file.read_bytes())
    for arguments, exit_code, sentence in (
        (["orders", "orders"], 2, "FROM and TO are the same topic"),
        (["none", "copies"], 1, "topic none does not exist at"),
        (["orders", "none"], 1, "topic none does not exist at"),
        (["orders", "copies", "--to-endpoints", "h:1", "--to-name-servers", "h:1"], 2, "give only one of --to-"),
        (["orders", "copies", "--offsets", str(file)], 1, "of another copy, with expression 'none' instead of '*'"),
        (["orders", "copies", "--offsets", str(tmp_path / "no" / "folder")], 1, "cannot write"),
    ):
        assert sentence in error_of(run("copy", *arguments), exit_code)
    with lock_file(file):
        error = error_of(run("copy", "orders", "copies", "--tag", "none", "--offsets", str(file)))
    assert error == f"another copy has {file} now; wait for its end, or use another file"
    kept["queues"] = [["broker-a", 0, 99]]
    file.write_text(json.dumps(kept), encoding="utf-8")
    error = error_of(run("copy", "orders", "copies", "--tag", "none", "--offsets", str(file)))
    assert "has offset 99 of queue orders/broker-a/0, which ends at 5: the topic was created again" in error
    assert list_bodies(run_json, "copies") == []
