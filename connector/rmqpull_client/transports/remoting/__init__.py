"""The transport for RocketMQ's remoting protocol, which Apache's brokers serve."""
