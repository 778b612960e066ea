"""The RPCs of ``apache.rocketmq.v2.MessagingService``, RocketMQ's own."""
