"""mqadmin's names: which command each of them calls, and with which arguments."""

from __future__ import annotations

import shlex

import click
import pytest

from rmqpull_broker.cli import main
from rmqpull_broker.cli.aliases import ALIASES, alias_command, translate
from tests.harness.cli import NEWEST_WORDS, RunCommand

CALLS = [
    ("updateTopic -n h:1 -c DefaultCluster -t orders", "topic update orders --create --endpoints h:1"),
    (
        "updateTopic -b 127.0.0.1:10911 -t orders -r 4 -w 8 -p 6 -o true -a +message.type=FIFO",
        "topic update orders --create --read-queues 4 --write-queues 8 --perm 6 --order --type FIFO",
    ),
    ("updateTopicPerm -t orders -p 4", "topic update orders --perm 4"),
    ("deleteTopic -n h:1;h:2 -c DefaultCluster -t orders", "topic delete orders --yes --endpoints h:1"),
    ("topicList -c --json", "topics --json"),
    ("topicStatus --topic orders", "topic orders"),
    ("topicRoute -t orders -l", "topic describe orders"),
    (
        "updateSubGroup -c DefaultCluster -g readers -s true -d false -o true -a false -q 2 -r 3",
        "group update readers --create --consume --no-broadcast --orderly --no-notify --retry-queues 2 "
        "--retry-max-times 3",
    ),
    ("deleteSubGroup -g readers -c DefaultCluster", "group delete readers --yes"),
    ("consumerProgress", "lag --queues"),
    ("consumerProgress -g readers -t orders", "lag --queues readers --topic orders"),
    ("consumerStatus --groupName readers", "group describe readers"),
    ("consumerConnection -g readers", "client list --group readers"),
    ("producerConnection -g senders -t orders", "client list --group senders"),
    ("resetOffsetByTime -g g -t t -s now", "reset g t --yes --to-time now"),
    (
        "resetOffsetByTime -g g -t t -s 2013-01-31#12:00:00:000 -b broker-a -q 3",
        "reset g t --yes --queue broker-a/3 --to-time 2013-01-31#12:00:00:000",
    ),
    ("resetOffsetByTime -g g -t t -s -1 -q 3 -o 12", "reset g t --yes --queue 3 --to-offset 12"),
    ("skipAccumulatedMessage -g g -t t -f true", "reset g t --yes --to latest"),
    ("queryMsgByKey -t orders -k 4711 -m 5", "peek orders --key 4711 --newest 5"),
    ("queryMsgById -i 01AB -t orders", "peek orders --id 01AB"),
    ("queryMsgByUniqueKey -i 01AB -t orders", "peek orders --id 01AB"),
    ("queryMsgByOffset -t t -b broker-a -i 3 -o 12", "peek t --queue broker-a/3 --from-offset 12 --newest 1"),
    ("printMsg -t orders -s 'a || b' -d true", "peek orders --tag 'a || b' --from-offset 0"),
    ("printMsg -t orders -b 1359633600000", "peek orders --at-time 1359633600000"),
    ("consumeMessage -t t", "peek t --from-offset 0"),
    ("consumeMessage -t t -s 1359633600000", "peek t --at-time 1359633600000"),
    ("consumeMessage -t t -b broker-a -i 3 -o 12 -c 5", "peek t --queue broker-a/3 --from-offset 12 --newest 5"),
    (
        "sendMessage -t orders -p 'hello world' -k 1 -c tag",
        "send orders --body 'hello world' --key 1 --tag tag",
    ),
    ("clusterList -m --timeout 3", "broker show --timeout 3"),
    ("brokerStatus -b h:1", "broker show"),
    ("getBrokerConfig -b h:1", "broker show"),
]


@pytest.mark.parametrize(("typed", "called"), CALLS, ids=[typed for typed, _ in CALLS])
def test_an_alias_calls_our_command(typed: str, called: str) -> None:
    name, *arguments = shlex.split(typed)
    given = alias_command(main, name).make_context(name, arguments).params
    assert [*ALIASES[name].command.split(), *translate(ALIASES[name], given)] == shlex.split(called)


@pytest.mark.parametrize("called", [called for _, called in CALLS])
def test_every_alias_calls_a_valid_command(called: str) -> None:
    command: click.Command = main
    context, words = click.Context(main), shlex.split(called)
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
    command.make_context(command.name, list(words), parent=context)


def test_every_alias_is_among_the_calls() -> None:
    assert {typed.split()[0] for typed, _ in CALLS} == set(ALIASES)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("updateSubGroup -g readers -s yes", "Invalid value for '-s': 'yes' is not true or false"),
        ("updateTopic -t orders -a +cleanup.policy=DELETE", "'+cleanup.policy=DELETE' is not supported"),
        ("deleteTopic", "Missing argument 'TOPIC'"),
        ("topicStatus -t a -t b", "-t is given 2 times: give it once"),
        pytest.param("topicStatus -x", "No such option '-x'", marks=NEWEST_WORDS),
    ],
)
def test_unsupported_values_of_an_alias_are_refused(run: RunCommand, typed: str, sentence: str) -> None:
    result = run(*shlex.split(typed))
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_an_alias_does_what_our_command_does(run: RunCommand) -> None:
    assert run("updateTopic", "-t", "new", "-r", "3", "-w", "3").exit_code == 0
    assert run("topicStatus", "-t", "new", "--json").stdout == run("topic", "new", "--json").stdout
