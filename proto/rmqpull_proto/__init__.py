"""The wire of rmqpull: apache.rocketmq.v2 and the columnar extension rmqpull.v1."""
