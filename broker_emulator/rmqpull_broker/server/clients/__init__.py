"""The connected clients of ``apache.rocketmq.v2`` and their Telemetry streams."""
