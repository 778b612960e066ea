"""The memory of large messages is reused: measured in pages that the system provides."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from rmqpull_proto.large_messages import reuse_memory

_ROUNDS = """
import resource
from rmqpull_proto.large_messages import reuse_memory

def fill():
    blocks = [bytes([number]) * (3 << 20) for number in range(8)]

if {is_told}:
    reuse_memory()
fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _pages_handed_out(*, is_told: bool) -> int:
    program = _ROUNDS.format(is_told=is_told)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return int(ended.stdout)


@pytest.mark.processes
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_the_memory_of_full_responses_is_reused() -> None:
    assert _pages_handed_out(is_told=True) < _pages_handed_out(is_told=False) / 10


def test_another_c_library_stays_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    reuse_memory()
