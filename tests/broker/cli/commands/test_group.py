"""``rmqpull-broker group``."""

from __future__ import annotations

import pytest

from tests.harness.cli import RunCommand, RunJson, error_of, table_of


@pytest.fixture
def readers(run: RunCommand) -> None:
    """The topic ``single`` has three messages; the group has consumed one."""
    run("send", "--topic", "single", "--body", "a", "--body", "b", "--body", "c")
    run("group", "create", "readers")
    run("group", "reset-offset", "readers", "single", "--queue", "0", "--to-offset", "1")


@pytest.mark.usefixtures("readers")
def test_groups_are_listed_with_their_lag(run: RunCommand, run_json: RunJson) -> None:
    heads, row = table_of(run("group", "list"))
    assert dict(zip(heads, row, strict=True)) == {
        "GROUP": "readers",
        "CLIENTS": "0",
        "LAG": "2",
        "IN FLIGHT": "0",
        "CONSUME": "yes",
        "BROADCAST": "yes",
        "ORDERLY": "no",
        "RETRY QUEUES": "1",
        "RETRY MAX TIMES": "16",
    }
    (group,) = run_json("group", "list")
    assert (group["group"], group["lag"], group["consume"], group["notify"]) == ("readers", 2, True, True)


def test_a_group_is_created_once_and_only_given_fields_are_changed(run: RunCommand, run_json: RunJson) -> None:
    assert run_json("group", "create", "g", "--orderly")["created"] is True
    assert run_json("group", "create", "g", "--orderly")["created"] is False
    assert "exists with another configuration" in error_of(run("group", "create", "g"))
    changed = run_json("group", "update", "g", "--retry-max-times", "3")
    assert (changed["orderly"], changed["retryMaxTimes"]) == (True, 3)
    assert error_of(run("group", "update", "new", "--no-consume")) == "Group new not exist!"
    assert run_json("group", "update", "new", "--no-consume", "--create")["consume"] is False


@pytest.mark.parametrize("policy", ["exponential:5s:2h:2", "exponential:500ms:1m:1.5", "10s,30s,1m", "default"])
def test_a_group_has_a_retry_policy(run_json: RunJson, policy: str) -> None:
    run_json("group", "create", "g", "--retry-policy", "1s")
    assert run_json("group", "update", "g", "--retry-policy", policy)["retryPolicy"] == policy
    assert run_json("group", "update", "g", "--retry-max-times", "3")["retryPolicy"] == policy


@pytest.mark.parametrize("policy", ["exponential:5s", "exponential:5s:1m:x", "soon", "exponential:5s:1m:0"])
def test_a_bad_retry_policy_is_refused(run: RunCommand, policy: str) -> None:
    result = run("group", "create", "g", "--retry-policy", policy)
    assert result.exit_code != 0
    assert "retry" in result.stderr


def test_the_switches_of_the_remoting_protocol_are_set(run_json: RunJson) -> None:
    group = run_json("group", "create", "g", "--no-broadcast", "--no-notify")
    assert (group["broadcast"], group["notify"]) == (False, False)


@pytest.mark.usefixtures("readers")
def test_a_group_is_described_with_its_progress(run: RunCommand, run_json: RunJson) -> None:
    described = run_json("group", "describe", "readers")
    assert described["clients"] == []
    assert described["progress"] == [
        {
            "group": "readers",
            "topic": "single",
            "brokerName": "broker-a",
            "queueId": 0,
            "consumerOffset": 1,
            "minOffset": 0,
            "maxOffset": 3,
            "lag": 2,
            "inFlight": 0,
        }
    ]
    lines = run("group", "describe", "readers").stdout.splitlines()
    assert ["LAG", "2"] in [line.split() for line in lines]
    assert lines[-1].split() == ["single", "broker-a", "0", "1", "0", "3", "2", "0"]


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize(
    ("place", "offset"),
    [
        (["--to", "earliest"], 0),
        (["--to", "latest"], 3),
        (["--to-time", "2013-01-31T12:00:00Z"], 0),
        (["--to-time", "9999-12-31T00:00:00Z"], 3),
        (["--to-time", "-1"], 3),
        (["--queue", "broker-a/0", "--to-offset", "2"], 2),
    ],
)
def test_a_group_is_reset(run_json: RunJson, place: list[str], offset: int) -> None:
    (queue,) = run_json("group", "reset-offset", "readers", "single", *place)
    assert (queue["from"], queue["to"]) == (1, offset)
    (progress,) = run_json("group", "describe", "readers")["progress"]
    assert progress["consumerOffset"] == offset


@pytest.mark.usefixtures("readers")
def test_a_dry_run_changes_nothing(run: RunCommand, run_json: RunJson) -> None:
    result = run("group", "reset-offset", "readers", "single", "--to", "latest", "--dry-run")
    assert table_of(result)[1] == ["single", "broker-a", "0", "1", "3"]
    assert "nothing was changed" in result.stderr
    assert run_json("lag")[0]["lag"] == 2


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none", "single", "--to", "latest"], "Group none does not exist"),
        (["readers", "none", "--to", "latest"], "Topic none does not exist"),
        (
            ["readers", "single", "--queue", "7", "--to", "latest"],
            "queueId[7] is illegal, topic:[single] has no queue single/broker-a/7",
        ),
        (
            ["readers", "single", "--queue", "0", "--to-offset", "9"],
            "Target offset 9 not in consume queue range [0-3]",
        ),
    ],
)
def test_an_impossible_reset_is_refused(run: RunCommand, arguments: list[str], sentence: str) -> None:
    assert error_of(run("group", "reset-offset", *arguments)) == sentence


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ([], "give exactly one of --to, --to-time and --to-offset"),
        (["--to", "latest", "--to-time", "now"], "exactly one of"),
        (["--to-offset", "1"], "--to-offset needs --queue"),
        (["--to-time", "noon"], "'noon' is not a time: use ISO 8601"),
        (["--to", "latest", "--queue", "a/b"], "'a/b' is not a queue: use ID or BROKER/ID"),
    ],
)
def test_a_reset_needs_exactly_one_target(run: RunCommand, place: list[str], sentence: str) -> None:
    assert sentence in error_of(run("group", "reset-offset", "g", "t", *place), exit_code=2)


@pytest.mark.usefixtures("readers")
def test_a_group_is_deleted_after_a_confirmation(run: RunCommand) -> None:
    assert run("group", "delete", "readers", stdin="n\n").exit_code == 1
    assert run("group", "delete", "readers", "--yes").exit_code == 0
    assert "no consumer groups" in run("group", "list").stderr


def test_a_group_without_clients_and_progress_is_described_without_empty_lines(run: RunCommand) -> None:
    assert run("group", "create", "idle").exit_code == 0
    assert all(run("group", "describe", "idle").stdout.splitlines())
