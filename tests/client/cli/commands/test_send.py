"""``rmqpull send``: its input, and what it says of messages that are refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import RunningBroker
from rmqpull_client.cli import sending
from tests.harness.cli import RunCommand, RunJson, error_of


def lines(*messages: object) -> str:
    return "".join(f"{json.dumps(message)}\n" for message in messages)


def peek(run_json: RunJson, topic: str = "single") -> list[dict[str, Any]]:
    return list(run_json("peek", topic, "--newest", "1000"))


def bodies(run_json: RunJson, topic: str = "single") -> list[str]:
    return [message["body"] for message in peek(run_json, topic)]


def test_bodies_from_the_command_line_are_sent_unchanged(run: RunCommand, run_json: RunJson) -> None:
    arguments = ("--tag", "t", "--key", "k", "--property", "city=Riga")
    result = run("send", "single", "--body", "a\nb", "--body", '{"x": 1}', *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "2 messages were acknowledged\n")
    first, second = peek(run_json)
    assert (first["body"], second["body"]) == ("a\nb", '{"x": 1}')
    assert (first["tags"], first["keys"], first["properties"]) == ("t", ["k"], {"city": "Riga"})


def test_lines_of_json_and_lines_of_text_are_sent(run: RunCommand, run_json: RunJson, tmp_path: Path) -> None:
    message = {"body": "über", "tags": "paid", "keys": ["a", "b"], "properties": {"city": "Riga"}}
    assert (
        run("send", "single", stdin=lines(message, {"bodyBase64": base64.b64encode(b"\xff").decode()})).exit_code == 0
    )
    file = tmp_path / "bodies.txt"
    file.write_bytes(b"one\r\n\ntwo\n")
    assert run("send", "single", str(file), "--format", "lines").exit_code == 0
    first, second, *others = peek(run_json)
    assert {name: first[name] for name in message} == message
    assert base64.b64decode(second["bodyBase64"]) == b"\xff"
    assert [other["body"] for other in others] == ["one", "two"]


def test_what_peek_and_export_write_can_be_sent(run: RunCommand, run_json: RunJson, tmp_path: Path) -> None:
    message = {"body": "a", "tags": "paid", "keys": ["k"], "properties": {"city": "Riga"}, "msgId": "0123"}
    run("send", "orders", stdin=lines(message))
    assert run("send", "single", stdin=run("peek", "orders", "--json").stdout).exit_code == 0
    for file_format in ("parquet", "jsonl"):
        folder = tmp_path / file_format
        assert run("export", "orders", str(folder), "--format", file_format).exit_code == 0
        (file,) = folder.glob(f"*.{file_format}")
        assert run("send", "single", str(file)).exit_code == 0
    sent = peek(run_json)
    assert len(sent) == 3
    for stored in sent:
        assert {name: stored[name] for name in message} == message


def test_parquet_of_other_programs_is_sent_with_defaults(run: RunCommand, run_json: RunJson, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    keys = pa.array([["a"], None], pa.large_list(pa.large_string()))
    pq.write_table(pa.table({"body": pa.array(["x", "y"], pa.large_string()), "keys": keys}), file)
    assert run("send", "single", str(file), "--tag", "paid").stderr == "2 messages were acknowledged\n"
    assert [(own["body"], own.get("keys"), own["tags"]) for own in peek(run_json)] == [
        ("x", ["a"], "paid"),
        ("y", None, "paid"),
    ]


def test_many_messages_are_sent_in_batches(run: RunCommand, run_json: RunJson, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "BATCH_ROWS", 3)
    text = "".join(f"{number}\n" for number in range(10))
    assert run_json("send", "single", "--format", "lines", stdin=text)["acknowledged"] == 10
    assert bodies(run_json) == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x\n", "line 1 of standard input is not a message: not JSON"),
        (
            lines({"body": "a"}, {"body": "b"}, {"tag": "a", "body": ""}),
            "line 3 .* unknown key 'tag'. Did you mean 'tags'?",
        ),
    ],
)
def test_a_bad_line_stops_the_command(run: RunCommand, text: str, sentence: str) -> None:
    result = run("send", "single", stdin=text)
    assert result.exit_code == 1
    begin, _, end = sentence.partition(" .* ")
    assert begin in result.stderr
    assert end in result.stderr
    assert "nothing after it was sent" in result.stderr


def test_a_line_that_cannot_be_read_is_refused(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not UTF-8: " in error_of(run("send", "single", stdin=b'{"body": "\xff"}\n'))
    monkeypatch.setattr(sending, "LINE_BYTES_MAX", 10)
    assert "longer than 10 bytes" in error_of(run("send", "single", "--format", "lines", stdin="x" * 100))


def test_what_was_acknowledged_before_is_counted(
    run: RunCommand, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH_ROWS", 2)
    error = error_of(run("send", "single", stdin=lines(*[{"body": "a"}] * 5) + "bad\n"))
    assert error.startswith("line 6 of standard input is not a message")
    assert "4 messages, up to line 4, were acknowledged before" in error
    assert len(bodies(run_json)) == 4


def test_an_empty_body_is_refused_and_an_empty_line_is_skipped(run: RunCommand, run_json: RunJson) -> None:
    for unit, arguments, text in (("message", ("--body", ""), ""), ("line", (), lines({"body": ""}))):
        error = error_of(run("send", "single", *arguments, stdin=text))
        assert f"{unit} 1 was refused" in error
        assert error.endswith("; no message was acknowledged before")
    text = "  a\n\r\n\n \n"
    assert run_json("send", "single", "--format", "lines", stdin=text)["acknowledged"] == 2
    assert bodies(run_json) == ["  a", " "]


def test_groups_of_messages_keep_their_order(broker: RunningBroker, run: RunCommand, run_json: RunJson) -> None:
    broker.create_topic("fifo", 4, TopicType.FIFO)
    messages = [{"body": str(number), "messageGroup": "g"} for number in range(20)]
    assert run("send", "fifo", stdin=lines(*messages)).exit_code == 0
    sent = peek(run_json, "fifo")
    assert [message["body"] for message in sent] == [str(number) for number in range(20)]
    assert len({message["queueId"] for message in sent}) == 1


def test_a_lost_acknowledgement_is_reported_as_such(
    broker: RunningBroker, run: RunCommand, servers: dict[str, str]
) -> None:
    method = "PublishColumns" if "RMQPULL_ENDPOINTS" in servers else "SEND_BATCH_MESSAGE"
    broker.faults.drop(method, after=True, times=None)
    result = run("send", "single", "--body", "a", "--body", "b", "--timeout", "0.2")
    assert result.exit_code == 3
    assert "it is unknown whether messages 1 to 2 were stored; no message was acknowledged before" in result.stderr


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"tags": ["a"]}, "has no column 'body'; it has tags"),
        ({"body": ["a"], "tag": ["a"]}, "unknown column 'tag'. Did you mean 'tags'?"),
        ({"body": ["a"], "keys": [1]}, "cannot be read as messages: "),
        (None, "cannot be read as messages: "),
    ],
)
def test_bad_parquet_is_refused(run: RunCommand, tmp_path: Path, table: dict[str, Any] | None, sentence: str) -> None:
    file = tmp_path / "rows.parquet"
    if table is None:
        file.write_bytes(b"PAR1")
    else:
        pq.write_table(pa.table(table), file)
    error = error_of(run("send", "single", str(file)))
    assert sentence in error
    assert error.endswith("no message was acknowledged before, nothing after it was sent")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (["none", "--body", "a"], 1, "none"),
        (["single", "no-such-file"], 1, "cannot read no-such-file: No such file or directory"),
        (["single", "no-such-file.parquet"], 1, "cannot read no-such-file.parquet: "),
        (["single", "--format", "parquet"], 2, "--format parquet needs FILE"),
        (["single", "a", "--body", "a"], 2, "give either --body, or FILE and --format"),
    ],
)
def test_an_impossible_send_is_refused(run: RunCommand, arguments: list[str], exit_code: int, sentence: str) -> None:
    assert sentence in error_of(run("send", *arguments), exit_code)


def test_a_refused_message_is_named_with_what_became_of_the_others(
    servers: dict[str, str], run: RunCommand, run_json: RunJson
) -> None:
    error = error_of(run("send", "single", stdin=lines({"body": "a"}, {"body": "b", "tags": "x\u0001y"})))
    if "RMQPULL_ENDPOINTS" in servers:  # the broker stores all messages of a call or none
        assert "lines 1 to 2 were refused together; no message was acknowledged before" in error
        assert bodies(run_json) == []
    else:
        assert "line 2 was refused: its column tags has a character 1 or 2" in error
        assert bodies(run_json) == ["a"]
