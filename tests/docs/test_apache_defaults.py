"""What docs/apache.md and docs/writing.md say of the defaults of Apache's broker is what a broker says of itself."""

from __future__ import annotations

import re
from pathlib import Path

from processes.apache.cluster import ApacheCluster

PAGE = Path(__file__).parents[2] / "docs" / "apache.md"
_GET_BROKER_CONFIG = 26


def read_config(apache: ApacheCluster) -> dict[str, str]:
    """Returns the properties of a running broker, whatever its file has said."""
    told = bytes(apache.administration.call(apache.brokers[0].address, _GET_BROKER_CONFIG).body).decode()
    return dict(line.split("=", 1) for line in told.splitlines() if "=" in line)


def test_the_limits_of_a_pull_and_what_is_written_when(apache: ApacheCluster) -> None:
    config = read_config(apache)
    rows = re.findall(r"^\| (`maxTransfer\w+`(?:, `\w+`)*) \| ([\d, ]+) \|", PAGE.read_text(encoding="utf-8"), re.M)
    said = {
        name.strip("`"): value
        for names, values in rows
        for name, value in zip(names.split(", "), values.split(", "), strict=True)
    }
    assert said
    assert {name: config[name] for name in said} == said
    assert config["flushConsumerOffsetInterval"] == "5000"  # "A broker writes them to disk every 5 s"
    assert (config["flushDiskType"], config["brokerRole"]) == ("ASYNC_FLUSH", "ASYNC_MASTER")
    assert config.get("inSyncReplicas", "1") == "1"  # 4.9 has no such property
