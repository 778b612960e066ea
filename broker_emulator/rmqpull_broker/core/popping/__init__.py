"""Pop: messages that a group acknowledges one by one, and that are redelivered if it does not (rules 3.17).

The messages stay in their queues. ``core.state.in_flight`` knows which of them are delivered and not acknowledged.
"""
