"""Jars are fetched once, by one process, and are there completely or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from processes.maven import Artifact, SoftwareMissing, cache, fetch_jars, made_once
from tests.harness.waiting import WAIT_S

SERVER = Artifact("org.example", "server", "1.0", is_alone=False)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Puts a program with the name of Maven on PATH."""
    program = folder / "mvn"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_maven_the_reason_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SoftwareMissing, match=r"Maven is not installed .*apt-get install maven"):
        fetch_jars([SERVER])


@pytest.mark.processes
def test_jars_are_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = 'for last; do :; done; echo jar >"${last#*=}/server-1.0.jar"; echo asked >>"$CALLS"'
    install(monkeypatch, tmp_path, copies)
    calls = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(calls))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: fetch_jars([SERVER]), range(4)))
    assert [jar.name for jar in found[0]] == ["server-1.0.jar"]
    assert found == [found[0]] * 4
    assert calls.read_text() == "asked\n"
    assert cache() in found[0][0].parents


@pytest.mark.processes
def test_a_failed_fetch_names_the_artifact_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, "exit 1")
    with pytest.raises(SoftwareMissing, match=r"Maven could not get org\.example:server:1\.0"):
        fetch_jars([SERVER])
    assert [path for path in cache().iterdir() if path.suffix != ".lock"] == []


def test_a_folder_is_made_by_one_and_awaited_by_others(tmp_path: Path) -> None:
    begun, go_on = Event(), Event()

    def make() -> bool:
        with made_once(tmp_path / "made") as work:
            if work is None:
                return False
            begun.set()
            assert go_on.wait(WAIT_S)
            (work / "file").touch()
            return True

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(make)
        assert begun.wait(WAIT_S)
        second = threads.submit(make)
        assert not (tmp_path / "made").exists()
        go_on.set()
        assert [first.result(WAIT_S), second.result(WAIT_S)] == [True, False]
    assert (tmp_path / "made" / "file").exists()


def test_an_interrupted_folder_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), made_once(tmp_path / "made"):
        raise KeyboardInterrupt
    assert not (tmp_path / "made").exists()
