"""A RocketMQ broker in one process: it speaks RocketMQ's gRPC and remoting protocols and has its own commit log."""

__version__ = "0.2.0.dev0"
