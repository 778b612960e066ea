"""``apache.rocketmq.v2`` alone: one queue and a few messages per call."""
