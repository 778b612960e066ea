"""Protocols of Apache RocketMQ."""
