"""``rmqpull reset`` of a group with members: brokers do it, where they can."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.remoting.codes import RequestCode
from tests.harness.cli import RunCommand, RunJson, error_of, table_of
from tests.harness.remoting_member import RemotingMember

pytestmark = pytest.mark.usefixtures("a_group_that_is_behind")


@pytest.fixture(autouse=True)
def member(broker: RunningBroker) -> Iterator[RemotingMember]:
    """A member of ``readers``, whom no command disturbs by its own membership."""
    with RemotingMember(broker.remoting_addresses[0], "ann") as member:
        member.beat("readers")
        yield member


def pull(member: RemotingMember, queue_id: int, offset: int) -> str:
    """Returns where the member continues after a pull."""
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": queue_id, "queueOffset": offset}
    more = {"maxMsgNums": 1, "sysFlag": 4, "suspendTimeoutMillis": 0, "subscription": "*", "commitOffset": 0}
    return member.call(RequestCode.PULL_MESSAGE, {**fields, **more, "subVersion": 1}).fields["nextBeginOffset"]


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        (["--to", "earliest"], {0: (4, 0), 1: (1, 0)}),
        (["--to", "latest"], {0: (4, 5), 1: (1, 5)}),
        (["--to-time", "1969-12-31T12:00:00Z"], {0: (4, 0), 1: (1, 0)}),
        (["--to-time", "9999-12-31T00:00:00Z"], {0: (4, 5), 1: (1, 5)}),
        (["--queue", "1", "--to", "latest"], {1: (1, 5)}),
        (["--queue", "1", "--to-offset", "3"], {1: (1, 3)}),
    ],
)
def test_members_continue_where_their_group_was_reset(
    run_json: RunJson, member: RemotingMember, arguments: list[str], targets: dict[int, tuple[int, int]]
) -> None:
    for last in ("--dry-run", "--yes"):
        assert run_json("lag", "readers")[0]["lag"] == 5
        rows = run_json("reset", "readers", "orders", *arguments, last)
        assert {row["queueId"]: (row["from"], row["to"]) for row in rows} == targets
    for queue_id, (before, target) in targets.items():
        assert pull(member, queue_id, before) == str(target)


def test_the_question_tells_of_members(run: RunCommand, run_json: RunJson) -> None:
    reset = ("reset", "readers", "orders", "--to", "latest")
    refused = run(*reset, stdin="n\n")
    assert "group readers has 1 member, who continue where brokers set the offsets, by the time" in refused.stderr
    assert run_json("lag")[0]["lag"] == 5
    result = run(*reset, stdin="y\n")
    assert "brokers set 2 consumer offsets" in result.stderr
    assert [row[-2:] for row in table_of(result)] == [["FROM", "TO"], ["4", "5"], ["1", "5"]] * 2
    assert run_json("lag")[0]["lag"] == 0


@pytest.mark.parametrize("servers", ["name servers"], indirect=True)
def test_members_are_told_if_brokers_do_not_store_resets(
    broker: RunningBroker, run: RunCommand, run_json: RunJson, member: RemotingMember
) -> None:
    member.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"useServerSideResetOffset=false\n")
    member.list_notices()
    rows = run_json("reset", "readers", "orders", "--to", "latest", "--yes")
    assert [(row["from"], row["to"]) for row in rows] == [(4, 5), (1, 5)]
    assert member.receive().code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    asked = run("reset", "readers", "orders", "--to", "earliest", "--yes")
    assert "brokers choose the offsets by the time, and only tell the members, who set them" in asked.stderr
    assert "brokers told the members 2 consumer offsets" in asked.stderr
    assert run_json("lag")[0]["lag"] == 5
    one = run("reset", "readers", "orders", "--queue", "1", "--to", "latest", "--yes")
    assert "Consumer group readers has members: ann. Broker broker-a can reset such a group only on" in error_of(one)
