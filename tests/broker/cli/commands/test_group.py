"""``rmqpull-broker group``."""

from __future__ import annotations

import pytest

from tests.harness.cli import RunCommand, RunJson, error_of


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


def test_a_group_is_described_with_its_configuration_and_clients(run: RunCommand, run_json: RunJson) -> None:
    run("group", "create", "readers")
    described = run_json("group", "describe", "readers")
    assert (described["group"], described["consume"], described["notify"]) == ("readers", True, True)
    assert described["clients"] == []
    assert run("group", "describe", "readers").stdout.splitlines()[0].split() == ["GROUP", "readers"]


def test_a_group_is_deleted_after_a_confirmation(run: RunCommand) -> None:
    run("group", "create", "readers")
    assert run("group", "delete", "readers", stdin="n\n").exit_code == 1
    assert run("group", "delete", "readers", "--yes").exit_code == 0
    assert "no consumer groups" in run("groups").stderr


def test_a_group_without_clients_and_progress_is_described_without_empty_lines(run: RunCommand) -> None:
    assert run("group", "create", "idle").exit_code == 0
    assert all(run("group", "describe", "idle").stdout.splitlines())
