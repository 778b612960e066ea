"""The clients for Node and Rust are built by lock files, which pin contents wherever a machine's registry is."""

from __future__ import annotations

import json
import re

from tests.clients.programs.grpc import node_programs, rust_programs

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
"""How Cargo names crates.io in every lock file. It is no address that is asked."""


def test_that_of_node_pins_contents_and_no_addresses() -> None:
    lock = json.loads((node_programs.SOURCES / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages["node_modules/rocketmq-client-nodejs"]["version"] == "1.0.8"
    assert [name for name, package in packages.items() if "resolved" in package or "integrity" not in package] == []


def test_that_of_rust_pins_contents_of_crates_io_only() -> None:
    lock = (rust_programs.SOURCES / "Cargo.lock").read_text(encoding="utf-8")
    packages = [package for package in lock.split("[[package]]") if "source =" in package]
    assert {source for package in packages for source in re.findall('source = "(.*)"', package)} == {CRATES_IO}
    assert all("checksum =" in package for package in packages)
    assert 'name = "rocketmq"\nversion = "5.0.0"' in lock
