"""``rmqpull-broker client`` and ``rmqpull-broker lock``."""

from __future__ import annotations

from rmqpull_broker.cli.rows import make_client_row
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc
from tests.harness.cli import RunCommand, RunJson, error_of, table_of

HELD = ("readers", "orders", "--client-id", "a")


def test_the_command_line_does_not_register_a_client(run: RunCommand, run_json: RunJson) -> None:
    assert run_json("client", "list") == []
    assert "no client is connected" in run("client", "list", "--group", "readers").stderr


def test_a_client_is_shown_with_its_groups_and_subscriptions() -> None:
    subscription = rpc.ClientSubscription(topic="orders", expression_type="TAG", expression="a")
    consumer = rpc.ClientMembership(group="readers", message_model="CLUSTERING", subscriptions=[subscription])
    producer = rpc.ClientMembership(group="orders", is_producer=True)
    client = rpc.Client(client_id="c", client_type="PUSH_CONSUMER", language="JAVA", memberships=[consumer, producer])
    assert make_client_row(client) == {
        "clientId": "c",
        "type": "PUSH_CONSUMER",
        "language": "JAVA",
        "version": "",
        "lastHeartbeat": "1970-01-01T00:00:00.000Z",
        "groups": ["readers", "orders"],
        "memberships": [
            {
                "group": "readers",
                "producer": False,
                "model": "CLUSTERING",
                "subscriptions": [{"topic": "orders", "type": "TAG", "expression": "a"}],
            },
            {"group": "orders", "producer": True, "model": None, "subscriptions": []},
        ],
    }


def test_locks_are_taken_listed_and_released(run: RunCommand, run_json: RunJson) -> None:
    assert "no queue is locked" in run("lock", "list").stderr
    assert table_of(run("lock", "take", *HELD, "--queue", "broker-a/0"))[1] == ["orders", "broker-a", "0"]
    (lock,) = run_json("lock", "list", "--group", "readers")
    assert {**lock, "lastUpdate": ""} == {
        "group": "readers",
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": 0,
        "clientId": "a",
        "lastUpdate": "",
    }
    other = run(
        "lock", "take", "readers", "orders", "--client-id", "b", "--queue", "broker-a/0", "--queue", "broker-a/1"
    )
    assert error_of(other) == "1 of 2 queues are locked by another client of group readers"
    assert run("lock", "release", *HELD, "--queue", "broker-a/0").exit_code == 0
    assert [lock["clientId"] for lock in run_json("lock", "list")] == ["b"]


def test_a_lock_needs_the_name_of_its_broker(run: RunCommand) -> None:
    assert "--queue needs the name of the broker" in error_of(run("lock", "take", *HELD, "--queue", "0"), exit_code=2)
