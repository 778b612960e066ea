"""One module per command of ``rmqpull-broker``, named after it. Each has its click command as ``command``."""
