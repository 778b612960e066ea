"""The transport ``apache.rocketmq.v2``, RocketMQ's own gRPC protocol."""
