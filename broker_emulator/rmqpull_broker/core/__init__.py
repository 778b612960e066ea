"""What RocketMQ does, as pure state and functions: no socket, thread, disk, clock or randomness.

Commands are checked against a ``state.draft.Draft`` and turn into facts. Facts that the commit log keeps are applied to
the ``state.state.BrokerState``; queries read it. Time comes in as an argument.
"""
