"""The RPCs of ``apache.rocketmq.v2``."""
