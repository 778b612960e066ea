"""Java is found, and small programs are compiled once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from processes.apache.releases import Release
from processes.java import compile_java, find_java
from processes.maven import SoftwareMissing
from tests.harness.waiting import WAIT_S

GREETING = (
    'public class Greeting { public static void main(String[] names) { System.out.println("hello " + names[0]); } }'
)


def test_the_java_of_java_home_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert find_java() == "/opt/java/bin/java"


def test_without_java_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SoftwareMissing, match="Java is not installed"):
        find_java()


def test_a_program_runs_and_is_compiled_again_when_it_changes(apache_release: Release, tmp_path: Path) -> None:
    source = tmp_path / "Greeting.java"
    source.write_text(GREETING)
    classes = compile_java([source], ())
    command = [find_java(), "-cp", str(classes), "Greeting", "Jürgen"]
    greeting = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True).stdout
    assert greeting == "hello Jürgen\n"
    assert compile_java([source], ()) == classes
    source.write_text(GREETING.replace("hello", "welcome"))
    assert compile_java([source], ()) != classes


def test_an_error_in_a_program_is_shown(apache_release: Release, tmp_path: Path) -> None:
    source = tmp_path / "Wrong.java"
    source.write_text("class Wrong { int number = unknown; }")
    with pytest.raises(RuntimeError, match="unknown cannot be resolved"):
        compile_java([source], ())
