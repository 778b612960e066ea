"""A RocketMQ broker in one process, with RocketMQ's gRPC protocol and its own commit log."""

__version__ = "0.1.0"
