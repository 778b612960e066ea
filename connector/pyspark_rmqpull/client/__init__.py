"""The old path of :mod:`rmqpull_client`. It goes with the next release: import ``rmqpull_client`` instead."""

from __future__ import annotations

from rmqpull_client import BrokerClient, Connection, QueueRows, connect

__all__ = ["BrokerClient", "Connection", "QueueRows", "connect"]
