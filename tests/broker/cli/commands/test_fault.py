"""``rmqpull-broker fault``."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_broker.cli.connection import Connection
from rmqpull_broker.testing import RunningBroker
from rmqpull_client.cli.output import Refused, Unreachable
from rmqpull_proto import rpc
from rmqpull_proto.columns import write_stream
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.cli import RunCommand, RunJson, error_of, table_of


def publish(broker: RunningBroker, topic: str = "single") -> None:
    """Sends a message with one call, which ``rmqpull send`` would repeat."""
    batch = pa.record_batch({"body": [b"a"]})
    request = v1.PublishColumnsRequest(topic=topic, arrow_ipc=write_stream(batch.schema, [batch]))
    with Connection(broker.endpoints, timeout_s=10) as connection:
        connection.call(rpc.COLUMNS, "PublishColumns", request)


def test_a_fault_applies_to_the_given_number_of_calls(broker: RunningBroker, run_json: RunJson) -> None:
    rule = run_json(
        "fault", "add", "PublishColumns", "--fail", "too_many_requests", "--message", "busy", "--times", "2"
    )
    assert rule == {
        "id": 1,
        "rpc": "PublishColumns",
        "action": "fail TOO_MANY_REQUESTS",
        "topic": None,
        "brokerName": None,
        "queueId": None,
        "group": None,
        "clientId": None,
        "times": 2,
        "struck": 0,
        "kept": 0,
    }
    for _ in range(2):
        with pytest.raises(Refused, match="busy"):
            publish(broker)
    publish(broker)
    assert run_json("fault", "list")[0]["struck"] == 2


@pytest.mark.parametrize(
    ("code", "shown"), [("flush_disk_timeout", "fail FLUSH_DISK_TIMEOUT"), ("forbidden", "fail FORBIDDEN")]
)
def test_a_request_of_the_remoting_protocol_takes_codes_of_both(run_json: RunJson, code: str, shown: str) -> None:
    assert run_json("fault", "add", "SEND_MESSAGE_V2", "--fail", code)["action"] == shown
    assert [rule["action"] for rule in run_json("fault", "list")] == [shown]


def test_a_fault_may_apply_to_all_calls_of_one_topic(broker: RunningBroker, run: RunCommand, run_json: RunJson) -> None:
    run("fault", "add", "--topic", "single", "--fail", "INTERNAL_SERVER_ERROR", "--always")
    for _ in range(3):
        with pytest.raises(Refused):
            publish(broker)
    publish(broker, "orders")
    assert run_json("fault", "list")[0]["struck"] == 3


def test_a_fault_after_the_command_affects_only_the_response(
    broker: RunningBroker, run: RunCommand, run_json: RunJson
) -> None:
    run("fault", "add", "PublishColumns", "--disconnect", "--after")
    with pytest.raises(
        Unreachable, match=r"the connection to the broker at .* broke before PublishColumns was answered"
    ):
        publish(broker)
    assert [message["body"] for message in run_json("peek", "single")] == ["a"]


def test_faults_are_listed_and_cleared(run: RunCommand, run_json: RunJson) -> None:
    assert "no faults" in run("fault", "list").stderr
    run("fault", "add", "PullColumns", "--queue", "0", "--topic", "orders", "--delay", "2s")
    run("fault", "add", "--client-id", "c", "--hold")
    assert table_of(run("fault", "list"))[1:] == [
        ["1", "PullColumns", "delay 2000 ms", "orders", "-", "0", "-", "-", "1", "0", "0"],
        ["2", "*", "hold", "-", "-", "-", "-", "c", "1", "0", "0"],
    ]
    assert run("fault", "clear", "2").stderr == "cleared 1 faults\n"
    assert "there is no fault rule 9" in error_of(run("fault", "clear", "1", "9"))
    assert [rule["id"] for rule in run_json("fault", "list")] == [1]
    assert run("fault", "clear").stderr == "cleared 1 faults\n"


def test_calls_of_the_admin_service_never_match(run: RunCommand) -> None:
    run("fault", "add", "--drop", "--always")
    assert run("client", "list").exit_code == 0
    assert run("fault", "clear").exit_code == 0


def test_releasing_a_fault_without_waiting_calls_does_nothing(run: RunCommand) -> None:
    run("fault", "add", "PullColumns", "--hold")
    assert run("fault", "release", "1").exit_code == 0
    assert "there is no fault rule 2" in error_of(run("fault", "release", "2"))


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (["PullColumns"], 2, "give exactly one of --fail, --delay, --drop, --hold and --disconnect"),
        (["PullColumns", "--drop", "--hold"], 2, "exactly one of"),
        (["--drop", "--always", "--times", "2"], 2, "either --times or --always"),
        (["--fail", "BUSY"], 2, "unknown code 'BUSY': use one of apache.rocketmq.v2"),
        (["--fail", "TOO_MANY_REQUEST"], 2, "Did you mean 'TOO_MANY_REQUESTS'?"),
        (["PULL_MESSAGE", "--fail", "system_bussy"], 2, "Did you mean 'SYSTEM_BUSY'?"),
        (["SendMessage", "--fail", "SYSTEM_BUSY"], 2, "a code of the remoting protocol, and 'SendMessage' is no"),
        (["--fail", "SYSTEM_BUSY"], 2, "a code of the remoting protocol, and '*' is not one of its requests"),
        (["--delay", "soon"], 2, "'soon' is not a duration: use numbers with ms, s, m, h or d"),
        (["Pull", "--drop"], 1, "unknown RPC 'Pull'"),
        (["SEND_MESAGE_V2", "--drop"], 1, "Did you mean 'SEND_MESSAGE_V2'?"),
        (["--queue", "1", "--drop"], 1, "must name the topic too"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(
    run: RunCommand, arguments: list[str], exit_code: int, sentence: str
) -> None:
    assert sentence in error_of(run("fault", "add", *arguments), exit_code)
