"""Which consumer gets which queues: RocketMQ's allocation strategies, with Spark partitions as the consumers.

The strategies (rocketmq-semantics ch. 2) give what Apache's classes give; ``backlog`` is this project's own. ``choice``
makes one of them from the options of a query.
"""
