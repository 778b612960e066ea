"""RocketMQ's allocation strategies (rules 2): which consumer reads which queues.

They give the same results as Apache's classes. :func:`~rmqpull_client.allocation.strategies.balance_backlog` has no
counterpart there.
"""
