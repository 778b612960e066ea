"""Legal names (rules 3.9.2, 5.5, 6.1)."""

import pytest

from rmqpull_broker.core.errors import IllegalConsumerGroup, IllegalTopic
from rmqpull_broker.core.state.names import (
    add_namespace,
    check_group_name,
    check_group_of_client,
    check_topic_name,
    check_topic_of_client,
    check_topic_spelling,
    is_creatable_group,
)

BLANK = "The specified {} is blank."
CHARACTERS = "The specified {}: {}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
TOPIC_LENGTH = "The specified {}: {}, is longer than topic max length: 127"
RETRY_LENGTH = "The specified topic is DLQ or Retry topic: {1}, and it's longer than topic max length: 255"
GROUP_LENGTH = "The specified {}: {}, is longer than group max length: 120"
SYSTEM_TOPIC = "cannot access system topic"
SYSTEM_GROUP = "cannot use system consumer group"


@pytest.mark.parametrize(
    "topic",
    ["orders", "A|b%c_d-9", "t" * 127, "%RETRY%readers", "%RETRY%" + "g" * 248, "CID_RMQ_SYS_x", "tbw102"],
)
def test_topics_that_clients_may_use(topic: str) -> None:
    check_topic_name(topic)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", BLANK),
        (" \t\n", BLANK),
        ("a b", CHARACTERS),
        ("a.b", CHARACTERS),
        ("a/b", CHARACTERS),
        ("ordérs", CHARACTERS),
        ("orders\n", CHARACTERS),
        ("." * 128, CHARACTERS),
        ("t" * 128, TOPIC_LENGTH),
        ("%RETRY%" + "g" * 249, RETRY_LENGTH),
        ("%DLQ%" + "g" * 251, RETRY_LENGTH),
        ("rmq_sys_wheel_timer", SYSTEM_TOPIC),
        ("TBW102", SYSTEM_TOPIC),
        ("BenchmarkTest", SYSTEM_TOPIC),
        ("SELF_TEST_TOPIC", SYSTEM_TOPIC),
        ("OFFSET_MOVED_EVENT", SYSTEM_TOPIC),
        ("SCHEDULE_TOPIC_XXXX", SYSTEM_TOPIC),
        ("RMQ_SYS_TRACE_TOPIC", SYSTEM_TOPIC),
        ("RMQ_SYS_TRANS_HALF_TOPIC", SYSTEM_TOPIC),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", SYSTEM_TOPIC),
        ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", SYSTEM_TOPIC),
        ("TRANS_CHECK_MAX_TIME_TOPIC", SYSTEM_TOPIC),
    ],
)
def test_topics_that_are_refused_for_the_first_rule_they_break(topic: str, reason: str) -> None:
    with pytest.raises(IllegalTopic) as refusal:
        check_topic_name(topic)
    assert str(refusal.value) == reason.format("topic", topic)


@pytest.mark.parametrize("group", ["readers", "A|b%c_d-9", "g" * 120, "rmq_sys_x", "TBW102"])
def test_groups_that_clients_may_use(group: str) -> None:
    check_group_name(group)


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        ("", BLANK),
        ("  ", BLANK),
        ("a b", CHARACTERS),
        ("readers\n", CHARACTERS),
        ("é" * 121, CHARACTERS),
        ("g" * 121, GROUP_LENGTH),
        ("CID_RMQ_SYS_TRANS", SYSTEM_GROUP),
    ],
)
def test_groups_that_are_refused_for_the_first_rule_they_break(group: str, reason: str) -> None:
    with pytest.raises(IllegalConsumerGroup) as refusal:
        check_group_name(group)
    assert str(refusal.value) == reason.format("group", group)


ALLOWED = "allowing only ^[%|a-zA-Z0-9_-]+$"


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (" ", "The specified topic is blank"),
        ("a b", f"The specified topic[a b] contains illegal characters, {ALLOWED}"),
        ("t" * 128, "The specified topic is longer than topic max length 127."),
        ("SELF_TEST_TOPIC", SYSTEM_TOPIC),
    ],
)
def test_a_proxy_refuses_topics_in_words_of_its_own(topic: str, reason: str) -> None:
    check_topic_of_client("t" * 127)
    with pytest.raises(IllegalTopic) as refusal:
        check_topic_of_client(topic)
    assert str(refusal.value) == reason


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (" ", "the specified group is blank"),
        ("a b", f"the specified group[a b] contains illegal characters, {ALLOWED}"),
        ("g" * 121, f"the specified group[{'g' * 121}] is longer than group max length: 120."),
        ("CID_RMQ_SYS_x", SYSTEM_GROUP),
    ],
)
def test_a_proxy_refuses_groups_in_words_of_its_own(group: str, reason: str) -> None:
    check_group_of_client("g" * 120)
    with pytest.raises(IllegalConsumerGroup) as refusal:
        check_group_of_client(group)
    assert str(refusal.value) == reason


@pytest.mark.parametrize("topic", ["TBW102", "rmq_sys_wheel_timer", "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250])
def test_a_broker_takes_the_names_of_system_topics_too(topic: str) -> None:
    check_topic_spelling(topic)


@pytest.mark.parametrize("topic", ["%RETRY%" + "g" * 249, "%DLQ%" + "g" * 251, "t" * 128, "a b", ""])
def test_a_broker_refuses_what_no_topic_is_called(topic: str) -> None:
    with pytest.raises(IllegalTopic):
        check_topic_spelling(topic)


@pytest.mark.parametrize(
    ("group", "is_creatable"),
    [("", False), ("g" * 120, True), ("g" * 121, False), ("CID_RMQ_SYS_x", True), ("a b", False), (" ", False)],
)
def test_groups_that_a_broker_makes_by_itself(group: str, is_creatable: bool) -> None:
    assert is_creatable_group(group) is is_creatable


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("orders", "shop%orders"),
        ("%RETRY%billing", "%RETRY%shop%billing"),
        ("%DLQ%billing", "%DLQ%shop%billing"),
        ("shop%orders", "shop%orders"),
        ("%RETRY%shop%billing", "%RETRY%shop%billing"),
        ("TBW102", "TBW102"),
        ("CID_RMQ_SYS_x", "CID_RMQ_SYS_x"),
        ("", ""),
    ],
)
def test_a_name_in_a_namespace(name: str, full: str) -> None:
    assert add_namespace("shop", name) == full
    assert add_namespace("", name) == name
