"""The old path of :mod:`rmqpull_client`, for one release. Import ``rmqpull_client`` instead."""

from __future__ import annotations

from rmqpull_client import BrokerClient, Connection, QueueRows, connect

__all__ = ["BrokerClient", "Connection", "QueueRows", "connect"]
