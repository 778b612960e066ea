"""The client for Rust is built by its lock file, wherever the machine's registry is."""

from __future__ import annotations

import re

import pytest

from processes.maven import SoftwareMissing
from tests.clients.programs.grpc.rust_programs import SOURCES, build_clients

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
"""How Cargo names crates.io in every lock file. It is no address that is asked."""


def test_a_machine_without_cargo_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SoftwareMissing, match=r"Rust is not installed .*apt-get install cargo"):
        build_clients()


def test_the_lock_file_pins_contents_of_crates_io_only() -> None:
    lock = (SOURCES / "Cargo.lock").read_text(encoding="utf-8")
    packages = [package for package in lock.split("[[package]]") if "source =" in package]
    assert {source for package in packages for source in re.findall('source = "(.*)"', package)} == {CRATES_IO}
    assert all("checksum =" in package for package in packages)
    assert 'name = "rocketmq"\nversion = "5.0.0"' in lock
