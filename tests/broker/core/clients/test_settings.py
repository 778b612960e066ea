"""The settings of clients (rules 5.7.1)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.clients.members import ClientChannel, ConsumeType
from rmqpull_broker.core.clients.settings import (
    RETRY_DELAYS_MS,
    ClientProfile,
    PublishingSettings,
    find_consume_type,
    find_redelivery_delay_ms,
    make_subscription_settings,
)
from rmqpull_broker.core.errors import InternalError
from rmqpull_broker.core.model import CustomizedBackoff, ExponentialBackoff, GroupConfig


def test_a_producer_tries_three_times_and_ever_more_slowly() -> None:
    told = PublishingSettings(max_body_size=4_194_304)
    assert (told.max_attempts, told.backoff) == (3, ExponentialBackoff(10, 1_000, 2.0))
    assert told.validate_message_type


@pytest.mark.parametrize(("retry_max_times", "max_attempts"), [(16, 17), (0, 1), (3, 4)])
def test_a_consumers_first_attempt_counts(retry_max_times: int, max_attempts: int) -> None:
    assert make_subscription_settings(GroupConfig("g", retry_max_times=retry_max_times)).max_attempts == max_attempts


@pytest.mark.parametrize("orderly", [True, False])
def test_a_group_that_consumes_in_order_is_fifo(orderly: bool) -> None:
    assert make_subscription_settings(GroupConfig("g", consume_message_orderly=orderly)).fifo is orderly


def test_the_settings_of_a_consumer() -> None:
    told = make_subscription_settings(GroupConfig("g"))
    assert (told.receive_batch_size, told.long_polling_timeout_ms) == (32, 20_000)
    assert told.backoff == CustomizedBackoff(RETRY_DELAYS_MS)


EXPONENTIAL = ExponentialBackoff(5_000, 60_000, 2.0)


@pytest.mark.parametrize("policy", [EXPONENTIAL, CustomizedBackoff((3_000, 9_000))])
def test_a_group_may_have_a_retry_policy_of_its_own(policy: ExponentialBackoff | CustomizedBackoff) -> None:
    assert make_subscription_settings(GroupConfig("g", retry_policy=policy)).backoff == policy


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (None, [10, 30, 60, 120]),
        (CustomizedBackoff((1_000, 2_000, 3_000, 4_000)), [3, 4, 4, 4]),
        (EXPONENTIAL, [5, 10, 20, 40, 60, 60]),
        (ExponentialBackoff(5_000, 7_200_000, 1.0), [5] * 99),
        (ExponentialBackoff(9_000, 1_000, 2.0), [1, 1]),
    ],
)
def test_the_broker_waits_before_it_delivers_again(
    policy: ExponentialBackoff | CustomizedBackoff | None, seconds: list[int]
) -> None:
    group = GroupConfig("g", retry_policy=policy)
    assert [find_redelivery_delay_ms(group, times) // 1000 for times in range(len(seconds))] == seconds


def test_the_delays_are_those_of_the_delay_levels() -> None:
    minutes = [60 * n for n in range(1, 11)]
    assert [ms // 1000 for ms in RETRY_DELAYS_MS] == [1, 5, 10, 30, *minutes, 1200, 1800, 3600, 7200]


@pytest.mark.parametrize(
    ("client_type", "consume_type"),
    [
        ("PUSH_CONSUMER", ConsumeType.PASSIVELY),
        ("SIMPLE_CONSUMER", ConsumeType.ACTIVELY),
        ("PULL_CONSUMER", ConsumeType.ACTIVELY),
    ],
)
def test_consumers_are_recognized(client_type: str, consume_type: ConsumeType) -> None:
    assert find_consume_type(client_type) is consume_type
    assert ClientProfile(ClientChannel("c", "c"), client_type).is_recognized


@pytest.mark.parametrize(
    "client_type", ["PRODUCER", "LITE_PUSH_CONSUMER", "LITE_SIMPLE_CONSUMER", "CLIENT_TYPE_UNSPECIFIED", "99"]
)
def test_other_types_do_not_consume(client_type: str) -> None:
    with pytest.raises(InternalError, match=f"Client type is not consumer, type: {client_type}"):
        find_consume_type(client_type)
    assert ClientProfile(ClientChannel("c", "c"), client_type).is_recognized is (client_type == "PRODUCER")
