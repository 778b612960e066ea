"""A RocketMQ broker in one process: what Apache RocketMQ answers, over gRPC, from a commit log of its own."""

__version__ = "0.1.0"
