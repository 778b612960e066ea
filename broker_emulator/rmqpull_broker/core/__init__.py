"""The rules of RocketMQ as pure state and functions, without sockets, threads, disks, clocks or randomness.

A command checks its request against a ``state.draft.Draft`` and adds facts to it. Facts that the commit log keeps are
applied to the ``state.broker_state.BrokerState``, which queries read. The time is an argument.
"""
