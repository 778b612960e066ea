"""What RocketMQEmulatorContainer says where testcontainers is not installed; tests/docker runs it in a real engine."""

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["testcontainers"] = None  # as if it were not installed
import rmqpull_broker.testcontainers
"""


def test_without_testcontainers_the_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: RocketMQEmulatorContainer needs testcontainers, which is not installed: "
        "pip install 'rmqpull[testcontainers]'"
    )
