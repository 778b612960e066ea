"""Data directories with damage of any kind: a start restores what was acknowledged, or refuses; it never guesses."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.store.disk_storage import StorageOptions
from rmqpull_broker.store.log.segments import CorruptLog
from tests.harness.hostile_input import damage, limit_cpu
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import StorageHarness

OPTIONS = StorageOptions(
    segment_bytes=2_500, save_bytes=1_500, snapshot_bytes=3_000, free_bytes_min=0, queue_file_bytes=2_500, cache_bytes=1
)


@cache
def make_files() -> dict[str, bytes]:
    """The files of a broker that was stopped: segments, queue files and two snapshots."""
    disk = MemoryFileSystem()
    broker = StorageHarness(disk, OPTIONS)
    broker.topic(queue_nums=2)
    broker.run(lambda draft: put_group(draft, GroupConfig("readers")))
    for number in range(12):
        broker.send(b"one %d" % number, b"another %d" % number)
        broker.publish(*[b"column %d" % number] * 9)
        broker.keep_up()
    broker.stop()
    return {name: bytes(data) for name, data in disk.files.items()}


def name_segment(number: int) -> str:
    return sorted(name for name in make_files() if name.endswith("log"))[number]


def observe(disk: MemoryFileSystem) -> dict[str, Any] | str:
    return StorageHarness(disk, OPTIONS).observed()


def test_the_directory_has_files_of_each_kind() -> None:
    kinds = [name.partition(".")[2] for name in make_files()]
    assert kinds.count("log") > 2
    assert kinds.count("chunks") > 1
    assert kinds.count("snapshot") == 2


@st.composite
def change_files(draw: st.DrawFn, files_max: int) -> dict[str, bytes]:
    """Files of which some are damaged, empty, missing, or have the content of another."""
    files = dict(make_files())
    for name in draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=files_max, unique=True)):
        match draw(st.integers(0, 5)):
            case 0:
                del files[name]
            case 1:
                files[name] = files[name][: draw(st.integers(0, len(files[name])))]
            case 2:
                files[name] = make_files()[draw(st.sampled_from(sorted(make_files())))]
            case 3:
                files[name] += draw(st.binary(min_size=1, max_size=90))
            case _:
                files[name] = draw(damage(files[name]))
    return files


@pytest.mark.edge
@given(change_files(files_max=1))
@limit_cpu
def test_one_damaged_file_costs_no_acknowledged_message(files: dict[str, bytes]) -> None:
    try:
        observed = observe(MemoryFileSystem(files))
    except CorruptLog as refused:
        observed = str(refused)
    assert observed == observe(MemoryFileSystem(dict(make_files()))) or "memory:" in str(observed)


def leave_out(suffix: str, *, but_last: bool = False) -> dict[str, bytes]:
    names = sorted(name for name in make_files() if name.endswith(suffix))
    missing = names[:-1] if but_last else names
    return {name: data for name, data in make_files().items() if name not in missing}


@pytest.mark.edge
@example({**make_files(), **dict.fromkeys((name for name in make_files() if name.endswith("chunks")), b"")})
@example({name: data for name, data in leave_out("chunks").items() if name != name_segment(1)})
@example({**leave_out("chunks"), name_segment(1): b"not a segment"})
@example({**leave_out("snapshot"), name_segment(0): make_files()[name_segment(1)]})
@example(leave_out("log"))
@example(leave_out("log", but_last=True))
@given(change_files(files_max=4))
@limit_cpu
def test_any_damage_is_recovered_from_or_refused(files: dict[str, bytes]) -> None:
    disk = MemoryFileSystem(files)
    try:
        broker = StorageHarness(disk, OPTIONS)
        broker.observed()
    except CorruptLog:
        return
    broker.topic("more")
    broker.send(b"later", topic="more")
    broker.stop()
    assert StorageHarness(disk, OPTIONS).state.topics.keys() >= {"more"}
