"""What the container says where it cannot work."""

from __future__ import annotations

import pytest
from testcontainers.core.exceptions import ContainerStartException

from rmqpull_broker.testcontainers import RocketMQEmulatorContainer


def test_without_an_engine_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(ContainerStartException, match="no Docker engine answers: start one, or say in DOCKER_HOST"):
        RocketMQEmulatorContainer()
