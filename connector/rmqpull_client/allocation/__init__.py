"""Which consumer gets which queues: RocketMQ's allocation strategies (rules 2).

They give what Apache's classes give. ``backlog`` is this project's own.
"""
