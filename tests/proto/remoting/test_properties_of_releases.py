"""The names of RocketMQ's own properties, as the class MessageConst of several releases has them."""

from __future__ import annotations

import pytest

from processes.maven import Artifact, SoftwareMissing, fetch_jars
from rmqpull_proto.remoting import properties as names
from tests.harness.class_files import read_string_constants

MESSAGE_CONST = "org.apache.rocketmq.common.message.MessageConst"
NEWEST = "5.5.0"


def read_names(release: str) -> dict[str, str]:
    """Returns the constants ``PROPERTY_*`` of a release."""
    try:
        [jar] = fetch_jars([Artifact("org.apache.rocketmq", "rocketmq-common", release)])
    except SoftwareMissing as missing:
        pytest.skip(f"A real Apache RocketMQ is needed: {missing}.")
    constants = read_string_constants(jar, MESSAGE_CONST)
    return {name: value for name, value in constants.items() if name.startswith("PROPERTY_")}


@pytest.mark.apache
@pytest.mark.apache_classes
@pytest.mark.processes
def test_all_names_of_the_newest_release_are_known_and_no_others() -> None:
    found = read_names(NEWEST)
    assert {found["PROPERTY_INNER_MULTI_DISPATCH"], found["PROPERTY_LITE_TOPIC"]} < names.OWN
    # The constant DUP_INFO is named without PROPERTY_, and its name is reserved.
    assert {*found.values(), "DUP_INFO"} == names.OWN


@pytest.mark.apache
@pytest.mark.processes
@pytest.mark.parametrize("release", ["4.9.4", "4.9.8", "5.0.0", "5.1.4", "5.3.3"])
def test_earlier_releases_have_no_other_names(release: str) -> None:
    found = read_names(release)
    assert found["PROPERTY_KEYS"] == names.KEYS
    assert set(found.values()) < names.OWN


def test_only_the_message_group_may_be_given_as_a_property_too() -> None:
    assert {names.SHARDING_KEY} == names.OWN - names.NOT_WRITABLE
