"""Chooses the server of a round."""

from __future__ import annotations

from pathlib import Path

from processes.children import Children
from soak.plan import Setting
from soak.servers import Server


def make_server(folder: Path, setting: Setting, children: Children) -> Server:
    """Returns the server of a round, not started yet."""
    # Each needs packages that the other one does not.
    if setting.is_apache:
        from soak.apache_server import ApacheServer

        return ApacheServer(folder, setting, children)
    from soak.rmqpull_server import RmqpullServer

    return RmqpullServer(folder, setting, children)
