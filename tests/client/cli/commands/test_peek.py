"""``rmqpull peek``: which messages it finds, and how it prints them."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.core.model import Message
from rmqpull_broker.testing import RunningBroker
from rmqpull_client.cli import searching
from rmqpull_proto.remoting.codes import RequestCode
from tests.harness.cli import RunCommand, RunJson, error_of, table_of
from tests.harness.remoting_member import RemotingMember

pytestmark = pytest.mark.parametrize("broker", ["manual"], indirect=True, ids=["manual clock"])


@pytest.fixture(autouse=True)
def _twenty_messages(broker: RunningBroker) -> None:
    """Bodies 0 to 19 on the two queues of ``orders``. Tags are ``even`` and ``odd``; only message 7 has a key."""
    for number in range(20):
        tag, keys = ("odd", "even")[number % 2 == 0], ("seven", "7") if number == 7 else ()
        broker.send("orders", Message(b"%d" % number, f"id-{number}", tags=tag, keys=keys))
        broker.clock.advance(1)


def found(run_json: RunJson, *arguments: str) -> list[int]:
    return [int(message["body"]) for message in run_json("peek", "orders", *arguments)]


@pytest.mark.parametrize(
    ("arguments", "bodies"),
    [
        ([], range(10, 20)),
        (["--newest", "3"], range(17, 20)),
        (["-n", "100"], range(20)),
        (["--queue", "0", "-n", "2"], [16, 18]),
        (["--queue", "broker-a/1", "-n", "2"], [17, 19]),
        (["--tag", "even", "-n", "2"], [16, 18]),
        (["--tag", "even || odd", "-n", "2"], [18, 19]),
        (["--tag", "none"], []),
        (["--key", "7"], [7]),
        (["--key", "seven", "--tag", "odd"], [7]),
        (["--key", "seven", "--tag", "even"], []),
        (["--key", "7", "--queue", "0"], []),
        (["--key", "7", "--queue", "1"], [7]),
        (["--key", "7", "--from-offset", "3"], [7]),
        (["--key", "7", "--from-offset", "4"], []),
        (["--key", "7", "--at-time", "2013-01-31T12:00:00Z"], [7]),
        (["--key", "7", "--at-time", "9999-12-31T00:00:00Z"], []),
        (["--key", "7", "--id", "id-7"], [7]),
        (["--key", "7", "--id", "id-8"], []),
        (["--id", "id-12"], [12]),
        (["--id", "id-12", "--scan", "99"], [12]),
        (["--from-offset", "0", "-n", "3"], range(3)),
        (["--from-offset", "8"], range(16, 20)),
        (["--from-offset", "99"], []),
        (["--queue", "1", "--from-offset", "2", "-n", "2"], [5, 7]),
        (["--from-offset", "2", "--tag", "odd", "-n", "2"], [5, 7]),
        (["--at-time", "2013-01-31T12:00:00Z", "-n", "2"], [0, 1]),
        (["--at-time", "9999-12-31T00:00:00Z"], []),
    ],
)
def test_messages_are_found_by_offset_time_filter_and_key(run_json: RunJson, arguments: list[str], bodies: Any) -> None:
    assert found(run_json, *arguments) == list(bodies)


@pytest.mark.parametrize("window", [1, 3, 7])
def test_windows_lose_nothing(run_json: RunJson, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(searching, "WINDOW_ROWS", window)
    monkeypatch.setattr(searching, "WINDOW_ROWS_MAX", window)
    assert found(run_json, "-n", "100") == list(range(20))
    assert found(run_json, "--tag", "odd", "-n", "4") == [13, 15, 17, 19]
    assert found(run_json, "--key", "7") == [7]
    assert found(run_json, "--key", "7", "--from-offset", "0", "-n", "1") == [7]


def test_a_message_at_its_own_store_time_is_found(run_json: RunJson) -> None:
    message = run_json("peek", "orders", "--id", "id-12")[0]
    first = run_json("peek", "orders", "--at-time", message["storeTimestamp"], "-n", "20")
    assert message in first


def test_a_search_that_stops_early_reports_it(run: RunCommand) -> None:
    result = run("peek", "orders", "--key", "seven", "--scan", "2")
    assert "no message found" in result.stderr
    assert "read 2 messages of each queue; set a larger --scan to read more" in result.stderr
    assert "--scan" not in run("peek", "orders", "--key", "seven").stderr


def test_the_way_of_a_look_up_is_told(run: RunCommand, servers: dict[str, str], broker: RunningBroker) -> None:
    over_grpc = f"the server at {broker.endpoints} keeps no index over gRPC: reading the queues\n"
    is_indexed = "RMQPULL_NAME_SERVERS" in servers
    for arguments in (("--key", "7"), ("--id", "id-7")):
        assert run("peek", "orders", *arguments).stderr == ("" if is_indexed else over_grpc)
    for reading in (("--scan", "99"), ("--tag", "odd")):
        assert run("peek", "orders", "--key", "7", *reading).stderr == ""
    hint = "brokers looked in their index: --scan N reads that many messages of each queue instead\n"
    not_found = run("peek", "orders", "--key", "none").stderr
    assert not_found == (f"no message found\n{hint}" if is_indexed else f"{over_grpc}no message found\n")


@pytest.mark.parametrize("servers", ["name servers"], indirect=True)
def test_a_broker_tells_of_the_newest_messages_only(broker: RunningBroker, run: RunCommand, run_json: RunJson) -> None:
    for number in range(70):
        broker.send("single", Message(b"%d" % number, f"s-{number}", keys=("same",)))
        broker.clock.advance(1)
    peek = ("peek", "single", "--key", "same")
    assert [message["body"] for message in run_json(*peek, "-n", "2")] == ["68", "69"]
    assert "older" not in run(*peek, "-n", "2").stderr
    more = run(*peek, "-n", "66")
    assert (len(table_of(more)) - 1, "there may be older ones: --scan N reads" in more.stderr) == (64, True)
    assert len(run_json(*peek, "-n", "66", "--scan", "70")) == 66
    assert "there may be older ones" in run(*peek, "--from-offset", "0").stderr


@pytest.mark.parametrize("servers", ["name servers"], indirect=True)
def test_the_id_that_the_broker_gave_finds_a_message(broker: RunningBroker, run_json: RunJson) -> None:
    """Producers learn it, beside their own id."""
    fields = {"producerGroup": "p", "topic": "orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4}
    more = {"queueId": 1, "sysFlag": 0, "bornTimestamp": 0, "flag": 0, "properties": "UNIQ_KEY\1own\2"}
    with RemotingMember(broker.remoting_addresses[0]) as producer:
        response = producer.call(RequestCode.SEND_MESSAGE, {**fields, **more}, b"from Java")
    (message,) = run_json("peek", "orders", "--id", response.fields["msgId"])
    assert (message["body"], message["msgId"]) == ("from Java", "own")
    assert run_json("peek", "orders", "--id", response.fields["msgId"], "--queue", "0") == []


def test_json_lines_have_all_fields(run_json: RunJson) -> None:
    (message,) = run_json("peek", "orders", "--key", "7")
    assert {name: message[name] for name in ("topic", "brokerName", "queueId", "queueOffset", "msgId", "keys")} == {
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": 1,
        "queueOffset": 3,
        "msgId": "id-7",
        "keys": ["seven", "7"],
    }


def test_a_table_shows_the_main_columns(run: RunCommand) -> None:
    heads, row = table_of(run("peek", "orders", "--key", "7"))
    assert heads == ["STORE TIMESTAMP", "QUEUE", "QUEUE OFFSET", "TAGS", "KEYS", "PROPERTIES", "BODY"]
    assert row[1:] == ["broker-a/1", "3", "odd", "seven, 7", "-", "7"]


def test_peeking_consumes_nothing(run: RunCommand, run_json: RunJson) -> None:
    run("peek", "orders")
    assert run_json("lag") == []


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (["none"], 1, "topic none does not exist at 127.0.0.1:"),
        (["orders", "--queue", "9"], 1, "topic orders has no queue 9; it has broker-a/0 to broker-a/1"),
        (["orders", "--queue", "broker-z/0"], 1, "topic orders has no queue broker-z/0"),
        (["orders", "--sql", "a = "], 1, 'Encountered "<EOF>"'),
        (["orders", "--tag", "a", "--sql", "b"], 2, "give only one of --tag and --sql"),
        (["orders", "--from-offset", "0", "--at-time", "now"], 2, "one of --from-offset and --at-time"),
        (["orders", "--newest", "0"], 2, "0 is not in the range"),
    ],
)
def test_an_impossible_peek_is_refused(run: RunCommand, arguments: list[str], exit_code: int, sentence: str) -> None:
    assert sentence in error_of(run("peek", *arguments), exit_code)
