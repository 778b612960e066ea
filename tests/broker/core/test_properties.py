"""Apache's broker properties: what each of them may be."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.properties import DELAY_LEVELS, BrokerProperties, Declared, list_declared, parse_level_delays


def test_the_levels_are_durations() -> None:
    delays = parse_level_delays(DELAY_LEVELS)
    assert (len(delays), delays[0], delays[4], delays[-1]) == (18, 1_000, 60_000, 7_200_000)
    assert parse_level_delays("3650d") == [3_650 * 86_400_000]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"message_delay_level": ""}, "property messageDelayLevel is '': there are 0 delays: expected 1 to 1024"),
        (
            {"message_delay_level": "1s soon"},
            "'soon' is not a delay: expected a number and one of s, m, h, d, such as 30s",
        ),
        ({"message_delay_level": "5"}, "'5' is not a delay"),
        ({"message_delay_level": "1.5s"}, "'1.5s' is not a delay"),
        ({"message_delay_level": "-1s"}, "'-1s' is not a delay"),
        ({"message_delay_level": "3651d"}, "the delay '3651d' is too long: the max is ten years, 3650d"),
        ({"message_delay_level": "1s " * 1025}, "there are 1025 delays"),
        ({"flush_disk_type": "NO_FLUSH"}, "property flushDiskType is 'NO_FLUSH': expected SYNC_FLUSH or ASYNC_FLUSH"),
        ({"broker_cluster_name": "a\tb"}, "property brokerClusterName is .*: expected 1 to 100 printable characters"),
        ({"region_id": ""}, "property regionId is '': expected 1 to 100 printable"),
        ({"broker_permission": 8}, "property brokerPermission is 8: expected 0 to 7"),
        ({"default_topic_queue_nums": 0}, "property defaultTopicQueueNums is 0: expected 1 to 1024"),
        ({"short_polling_time_mills": 0}, "property shortPollingTimeMills is 0: expected 1 to 2147483647"),
        ({"start_accept_send_request_time_stamp": 10**18}, "property startAcceptSendRequestTimeStamp is 1000"),
        ({"max_message_size": 0}, "property maxMessageSize is 0"),
        ({"transaction_check_interval": 0}, "property transactionCheckInterval is 0"),
        ({"flush_interval_commit_log": 0}, "property flushIntervalCommitLog is 0"),
        ({"mapped_file_size_commit_log": 0}, "property mappedFileSizeCommitLog is 0"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        BrokerProperties(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "prop", [prop for prop in list_declared() if type(prop.default) is int], ids=lambda prop: prop.name
)
def test_no_number_is_negative_or_absurd(prop: Declared) -> None:
    for value in (-1, 1 << 63):
        with pytest.raises(ValueError, match=f"property {prop.name} is {value}: expected "):
            BrokerProperties(**{prop.field: value})  # type: ignore[arg-type]
