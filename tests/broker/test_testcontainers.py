"""The errors of the container when it cannot start."""

from __future__ import annotations

import subprocess
import sys

import pytest
from testcontainers.core.exceptions import ContainerStartException

from rmqpull_broker.testcontainers import RocketMQEmulatorContainer

SCRIPT = """
import sys
sys.modules["testcontainers"] = None  # as if it were not installed
import rmqpull_broker.testcontainers
"""


@pytest.mark.processes
def test_without_testcontainers_the_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: RocketMQEmulatorContainer needs testcontainers, which is not installed: "
        "pip install 'rmqpull[testcontainers]'"
    )


def test_the_error_without_an_engine_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(ContainerStartException, match="no Docker engine answers: start one, or set DOCKER_HOST"):
        RocketMQEmulatorContainer()
