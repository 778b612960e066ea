"""Protocols of rmqpull, by their protobuf package."""
