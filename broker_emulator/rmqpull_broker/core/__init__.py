"""What RocketMQ does, as pure state and functions: no socket, thread, disk, clock or randomness.

Commands are checked against a :class:`~rmqpull_broker.core.draft.Draft` and turn into facts; facts that the commit log
keeps are applied to the :class:`~rmqpull_broker.core.state.BrokerState`; queries read it. Time comes in as an argument.
"""
