"""``rmqpull-broker send``: its input, bad lines, and the report of stored messages."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import running_broker
from rmqpull_client.cli import sending
from tests.harness.cli import RunCommand, RunJson, error_of, table_of


def lines(*messages: object) -> str:
    return "".join(f"{json.dumps(message)}\n" for message in messages)


def bodies(run_json: RunJson, topic: str = "single", *options: str) -> list[str]:
    return [message["body"] for message in run_json("peek", topic, "--newest", "10000", *options)]


def test_bodies_from_the_command_line_are_sent_unchanged(run: RunCommand, run_json: RunJson) -> None:
    result = run("send", "--topic", "single", "--body", "a\nb", "--body", '{"x": 1}', "--tag", "t", "--key", "k")
    assert table_of(result) == [
        ["BROKER NAME", "QUEUE ID", "MESSAGES", "FIRST OFFSET", "LAST OFFSET"],
        ["broker-a", "0", "2", "0", "1"],
    ]
    assert result.stderr == "2 messages were acknowledged\n"
    first, second = run_json("peek", "single")
    assert (first["body"], second["body"]) == ("a\nb", '{"x": 1}')
    assert (first["tags"], first["keys"]) == ("t", ["k"])


def test_all_fields_of_a_message_can_be_sent_as_json(run_json: RunJson) -> None:
    message = {
        "body": "über",
        "tags": "paid",
        "keys": ["a", "b"],
        "properties": {"city": "Riga"},
        "bornTimestamp": "2013-01-31T12:00:00.000Z",
        "bornHost": "10.0.0.1:5555",
        "msgId": "0123",
    }
    sent = run_json("send", "--topic", "single", stdin=lines(message))
    assert sent == {
        "topic": "single",
        "acknowledged": 1,
        "queues": [{"brokerName": "broker-a", "queueId": 0, "messages": 1, "firstOffset": 0, "lastOffset": 0}],
    }
    (stored,) = run_json("peek", "single")
    assert {name: stored[name] for name in message} == message


def test_a_delayed_message_is_delivered_by_the_brokers_clock(run: RunCommand, run_json: RunJson) -> None:
    with running_broker(topics={"later": (1, TopicType.DELAY)}, clock="manual") as broker:
        endpoints = ("--endpoints", broker.endpoints)
        sent = run_json("send", "--topic", "later", "--body", "a", "--delay", "5m", *endpoints)
        assert sent["acknowledged"] == 1
        run("clock", "advance", "4m58s", *endpoints)
        assert bodies(run_json, "later", *endpoints) == []
        run("clock", "advance", "2s", *endpoints)
        assert bodies(run_json, "later", *endpoints) == ["a"]


def test_bytes_are_sent_in_base64(run_json: RunJson) -> None:
    data = bytes(range(256))
    run_json("send", "--topic", "single", stdin=lines({"bodyBase64": base64.b64encode(data).decode()}))
    (stored,) = run_json("peek", "single")
    assert base64.b64decode(stored["bodyBase64"]) == data


def test_the_output_of_peek_can_be_sent_again(run: RunCommand, run_json: RunJson) -> None:
    run("send", "--topic", "orders", "--body", "a", "--tag", "t", "--property", "city=Riga")
    printed = run("peek", "orders", "--json").stdout
    assert run_json("send", "--topic", "single", stdin=printed)["acknowledged"] == 1
    (copy,) = run_json("peek", "single")
    assert (copy["topic"], copy["body"], copy["tags"], copy["properties"]) == ("single", "a", "t", {"city": "Riga"})


def test_flags_are_defaults_for_fields_that_a_line_leaves_out(run_json: RunJson) -> None:
    run_json("send", "--topic", "single", "--tag", "flag", stdin=lines({"body": "a"}, {"body": "b", "tags": "line"}))
    assert [message["tags"] for message in run_json("peek", "single")] == ["flag", "line"]


def test_text_lines_are_bodies(run_json: RunJson) -> None:
    run_json("send", "--topic", "single", "--text", stdin=b"a b\r\n\n{c}\n\xc3\xa9")
    assert bodies(run_json) == ["a b", "{c}", "é"]


def test_messages_come_from_a_file_too(run: RunCommand, run_json: RunJson, tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_text(lines({"body": "a"}, {"body": "b"}))
    assert run_json("send", "--topic", "single", str(file))["acknowledged"] == 2
    assert "No such file or directory" in error_of(run("send", "--topic", "single", str(tmp_path / "none")))


def test_groups_of_messages_keep_their_order(run: RunCommand, run_json: RunJson) -> None:
    run("topic", "create", "fifo", "--queues", "4", "--type", "FIFO")
    messages = [{"body": str(number), "messageGroup": "g"} for number in range(20)]
    assert len(run_json("send", "--topic", "fifo", stdin=lines(*messages))["queues"]) == 1
    assert bodies(run_json, "fifo") == [str(number) for number in range(20)]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("hello", "not JSON: "),
        ("1", 'not a JSON object, such as {"body": "hello"}, but a number'),
        ("{}", "a message needs either 'body' or 'bodyBase64'"),
        ('{"body": "a", "bodyBase64": "YQ=="}', "a message needs either 'body' or 'bodyBase64'"),
        ('{"body": 1}', "'body' is a number, not a string"),
        ('{"body": "a", "tag": "t"}', "unknown key 'tag'. Did you mean 'tags'?"),
        ('{"body": "a", "keys": [1]}', "'keys' is a number, not a string"),
        ('{"body": "a", "properties": ["x"]}', "'properties' is a list, not an object of strings"),
        ('{"body": "a", "deliveryTimestamp": "soon"}', "'deliveryTimestamp': 'soon' is not a time"),
        ('{"body": "a", "deliveryTimestamp": true}', "'deliveryTimestamp' is a boolean"),
        ('{"bodyBase64": "?"}', "'bodyBase64' is not base64"),
        ('{"body": "\\ud800"}', "'body' has half of a surrogate pair"),
        ('{"body": "a", "bodyEncoding": "ZIP"}', "'bodyEncoding' is 'ZIP': use one of IDENTITY, GZIP"),
    ],
)
def test_a_bad_line_is_refused_with_its_batch(run: RunCommand, run_json: RunJson, line: str, sentence: str) -> None:
    complaint = error_of(run("send", "--topic", "single", stdin=lines({"body": "a"}) + line + "\n"))
    assert complaint.startswith("line 2 of standard input is not a message: ")
    assert sentence in complaint
    assert complaint.endswith("; no message was acknowledged before, nothing after it was sent")
    assert bodies(run_json) == []


def test_a_line_that_is_not_utf_8_is_refused(run: RunCommand) -> None:
    assert "not UTF-8: " in error_of(run("send", "--topic", "single", stdin=b'{"body": "\xff"}\n'))


def test_the_error_for_a_bad_line_counts_the_acknowledged_messages(
    run: RunCommand, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH_ROWS", 2)
    complaint = error_of(run("send", "--topic", "single", stdin=lines(*[{"body": "a"}] * 5) + "bad\n"))
    assert complaint.startswith("line 6 of standard input is not a message")
    assert "4 messages, up to line 4, were acknowledged before" in complaint
    assert len(bodies(run_json)) == 4


def test_a_line_that_is_too_long_is_refused(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LINE_BYTES_MAX", 10)
    assert "longer than 10 bytes" in error_of(run("send", "--topic", "single", "--text", stdin="x" * 100))


def test_a_refusal_of_the_broker_names_the_lines(
    run: RunCommand, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH_ROWS", 2)
    messages = [{"body": "a"}, {"body": "b"}, {"body": "c"}, {"body": "d", "tags": "a|b"}]
    complaint = error_of(run("send", "--topic", "single", stdin=lines(*messages)))
    assert complaint.endswith(
        ": lines 3 to 4 were refused together; 2 messages, up to line 2, were acknowledged before"
    )
    assert bodies(run_json) == ["a", "b"]
    assert "topic[none] not exist" in error_of(run("send", "--topic", "none", "--body", "a"))


def test_many_messages_go_in_batches(run: RunCommand, run_json: RunJson) -> None:
    count = 25_000
    assert run_json("send", "--topic", "orders", "--text", stdin="x\n" * count)["acknowledged"] == count
    assert sum(row["messages"] for row in run_json("topic", "describe", "orders")["queues"]) == count


def test_bodies_and_a_file_are_not_taken_together(run: RunCommand) -> None:
    assert "either --body or FILE" in error_of(run("send", "--topic", "t", "--body", "a", "file"), exit_code=2)


@pytest.mark.parametrize("body", [" ", "a\nb", "\t"])
def test_a_body_from_the_command_line_is_sent_unchanged(run: RunCommand, run_json: RunJson, body: str) -> None:
    assert run("send", "--topic", "single", "--body", body).exit_code == 0
    assert bodies(run_json) == [body]


def test_an_empty_body_is_refused_and_not_skipped(run: RunCommand, run_json: RunJson) -> None:
    complaint = error_of(run("send", "--topic", "single", "--body", "a", "--body", ""))
    assert complaint == (
        "message body cannot be empty: messages 1 to 2 were refused together; no message was acknowledged before"
    )
    assert bodies(run_json) == []


def test_lines_of_text_keep_their_spaces_and_empty_ones_are_skipped(run: RunCommand, run_json: RunJson) -> None:
    assert run_json("send", "--topic", "single", "--text", stdin="  a\n\r\n\n \n")["acknowledged"] == 2
    assert bodies(run_json) == ["  a", " "]


def test_one_refused_line_is_reported_in_the_singular(run: RunCommand) -> None:
    complaint = error_of(run("send", "--topic", "single", stdin=lines({"body": ""})))
    assert complaint == "message body cannot be empty: line 1 was refused; no message was acknowledged before"
