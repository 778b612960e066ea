"""Topics of RocketMQ's own are those that the jars of its releases name: nobody's pattern reads them."""

from __future__ import annotations

import pytest

from processes.apache.releases import RELEASE_5_3, RELEASE_5_5
from processes.maven import Artifact, SoftwareMissing, fetch_jars
from rmqpull_client.transports.remoting.network.cluster import is_system_topic
from tests.harness.class_files import read_string_constants

VALIDATOR = "org.apache.rocketmq.common.topic.TopicValidator"


@pytest.mark.apache
@pytest.mark.apache_classes
@pytest.mark.processes
@pytest.mark.parametrize("release", [RELEASE_5_3.server, RELEASE_5_5.server])
def test_each_topic_that_a_release_names_is_of_the_system(release: str) -> None:
    try:
        [jar] = fetch_jars([Artifact("org.apache.rocketmq", "rocketmq-common", release)])
    except SoftwareMissing as missing:
        pytest.skip(f"A real Apache RocketMQ is needed: {missing}.")
    names = {*read_string_constants(jar, VALIDATOR).values()}
    assert {"TBW102", "CHECKPOINT_TOPIC"} < names
    assert {name for name in names if not is_system_topic(name)} == set()
