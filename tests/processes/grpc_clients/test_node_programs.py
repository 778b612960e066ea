"""The client for Node is fetched by its lock file, wherever the machine's registry is."""

from __future__ import annotations

import json

import pytest

from processes.maven import SoftwareMissing
from tests.clients.programs.grpc.node_programs import SOURCES, install_clients


def test_a_machine_without_npm_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SoftwareMissing, match=r"npm is not installed .*apt-get install nodejs npm"):
        install_clients()


def test_the_lock_file_pins_contents_and_no_addresses() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages["node_modules/rocketmq-client-nodejs"]["version"] == "1.0.8"
    assert [name for name, package in packages.items() if "resolved" in package or "integrity" not in package] == []
