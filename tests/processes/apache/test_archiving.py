"""Servers start with archives of their classes."""

from __future__ import annotations

from pathlib import Path

from processes.apache.archiving import make_archives
from processes.apache.class_archives import name_archive, name_folder
from processes.apache.cluster import ApacheCluster
from processes.apache.releases import Release


def test_a_broker_has_taken_its_classes_from_the_archive(apache: ApacheCluster, apache_release: Release) -> None:
    folder = name_folder(apache_release.fetch_server_jars())
    for server, main_class in ((apache.brokers[0], "BrokerStartup"), (apache.name_servers[0], "NamesrvStartup")):
        archive = name_archive(folder, main_class)
        assert str(archive) in Path(f"/proc/{server.pid}/maps").read_text()
        made = archive.stat().st_mtime_ns
        make_archives(apache_release)
        assert archive.stat().st_mtime_ns == made


def test_jars_that_have_changed_have_another_archive(apache_release: Release, tmp_path: Path) -> None:
    jar = tmp_path / "broker.jar"
    jar.write_bytes(b"one")
    first = name_folder([jar])
    assert name_folder([jar]) == first
    jar.write_bytes(b"other")
    assert name_folder([jar]) != first
